//! Farm in which one rank runs at a tenth of its speed during the last twentieth of the tasks.
//!
//! Tasks sleep instead of computing, so that ranks do not compete for cores.

use std::{thread::sleep, time::Duration};

use armature::{Config, Progress, farm::Farm};

use crate::{RunResult, ranks::Launch};

const RANKS: usize = 4;
const SLOW_RANK: usize = 1;
const SLOWNESS: u32 = 10;
/// Fraction of the tasks that start before the slow rank becomes slow.
const FAST_PART: f64 = 0.95;

/// Method of distributing the tasks to the ranks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dispatch {
    /// A farm in which idle ranks run second copies of unfinished tasks.
    WithCopies,
    /// A farm in which each task runs on one rank only.
    WithoutCopies,
    /// A fixed list of tasks for each rank, planned with the known times of all tasks. Each task is given to the rank
    /// on which it would end first.
    Oracle,
}

impl Dispatch {
    const NAMES: [(&str, Dispatch); 3] = [
        ("with-copies", Dispatch::WithCopies),
        ("without-copies", Dispatch::WithoutCopies),
        ("oracle", Dispatch::Oracle),
    ];

    fn name(self) -> &'static str {
        Dispatch::NAMES.into_iter().find(|(_, dispatch)| *dispatch == self).map_or("", |(name, _)| name)
    }

    fn parse(text: &str) -> RunResult<Self> {
        let found = Dispatch::NAMES.into_iter().find(|(name, _)| *name == text);
        Ok(found.ok_or_else(|| format!("there is no distribution {text}"))?.1)
    }
}

/// Tasks of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tasks {
    /// Number of tasks.
    pub count: u64,
    /// Mean time of a task.
    pub mean: Duration,
}

impl Tasks {
    /// Returns the time of a task on a rank: between a half and three halves of the mean, and longer on a slow rank.
    fn time(&self, task: u64, rank: usize) -> Duration {
        let noise = armature_tests::check::noise(5, task) % 1_000;
        let time = self.mean.mul_f64(0.5 + noise as f64 / 1_000.0);
        let is_slow = rank == SLOW_RANK && task as f64 >= FAST_PART * self.count as f64;
        if is_slow { time * SLOWNESS } else { time }
    }

    fn lists(&self) -> Vec<Vec<u64>> {
        let mut lists = vec![(Duration::ZERO, Vec::new()); RANKS];
        for task in 0..self.count {
            let ends = lists.iter().enumerate().map(|(rank, (end, _))| *end + self.time(task, rank));
            let (rank, end) = ends.enumerate().min_by_key(|(_, end)| *end).unwrap_or_default();
            lists[rank].0 = end;
            lists[rank].1.push(task);
        }
        lists.into_iter().map(|(_, tasks)| tasks).collect()
    }

    /// Runs the tasks on ranks, and returns the time in seconds until rank 0 has all results.
    ///
    /// # Errors
    /// If the ranks cannot be started; also errors of [`main`].
    pub fn measure(&self, dispatch: Dispatch) -> RunResult<f64> {
        let arguments = [dispatch.name().into(), self.count.to_string(), self.mean.as_micros().to_string()];
        let values = Launch::ranks(RANKS).run("slow-end", &arguments)?;
        values.get("seconds").copied().ok_or_else(|| "the ranks printed no time".into())
    }

    fn run(self, config: &Config, dispatch: Dispatch) -> RunResult<Option<f64>> {
        Ok(armature::run(config, |session| {
            session.barrier()?;
            if dispatch == Dispatch::Oracle {
                let start = session.elapsed();
                let list = &self.lists()[session.rank()];
                list.iter().for_each(|&task| sleep(self.time(task, session.rank())));
                let done = session.gather(list.clone())?;
                return Ok(done.map(|_| (session.elapsed() - start).as_secs_f64()));
            }
            let mut farm = Farm::with_context("slow end", |task: u64, cx| {
                sleep(self.time(task, cx.rank()));
                Ok(task)
            });
            if dispatch == Dispatch::WithCopies {
                farm = farm.second_copies();
            }
            let Some((results, summary)) = farm.collect(session, 0..self.count)?.into_parts() else {
                return Ok(None);
            };
            if !results.into_iter().eq(0..self.count) {
                return Err("the results differ from those of the serial program".into());
            }
            Ok(Some(summary.elapsed.as_secs_f64()))
        })?)
    }
}

/// Runs the rank program; prints `result seconds S` on rank 0.
///
/// # Errors
/// If the arguments or the results are wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let [dispatch, count, mean] = arguments else {
        return Err(format!("expected DISTRIBUTION TASKS MICROSECONDS, got {arguments:?}").into());
    };
    let tasks = Tasks { count: count.parse()?, mean: Duration::from_micros(mean.parse()?) };
    let config = Config::from_env()?.progress(Progress::Off);
    if let Some(seconds) = tasks.run(&config, Dispatch::parse(dispatch)?)? {
        println!("result seconds {seconds}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn oracle_runs_each_task_once_and_few_on_the_slow_rank() {
        let tasks = Tasks { count: 400, mean: Duration::from_millis(5) };
        let lists = tasks.lists();
        let mut all = lists.concat();
        all.sort_unstable();
        assert!(all.into_iter().eq(0..400));
        assert!(lists[SLOW_RANK].iter().filter(|&&task| task >= 380).count() <= 1, "{lists:?}");
    }

    #[test]
    fn every_distribution_delivers_all_results() {
        let tasks = Tasks { count: 40, mean: Duration::from_millis(1) };
        for (name, dispatch) in Dispatch::NAMES {
            assert_eq!(Dispatch::parse(name).unwrap(), dispatch);
            let config = Config::new().ranks(RANKS).progress(Progress::Off);
            assert!(tasks.run(&config, dispatch).unwrap().unwrap() > 0.0, "{name}");
        }
    }
}

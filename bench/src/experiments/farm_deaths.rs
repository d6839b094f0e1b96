//! Workers of a farm are killed at random moments: is every result delivered once, does the job end, and when?
//!
//! Four ranks under `mpirun --enable-recovery`; 50 runs in which one worker is sent SIGKILL and 20 in which two are, each
//! at a moment drawn from the time that an undisturbed run takes. The output on disk must have every task once, in
//! order, with its result. The run may take as long as one with the survivors alone from its start, and the time after
//! which a silent worker counts as dead: [`SILENCE`] for one that has said that it computes on a thread of its own,
//! [`PEER`] for others.

use std::{
    path::Path,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use armature_planner::farm::Chunking;
use rand::{Rng, SeedableRng, rngs::StdRng, seq::SliceRandom};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    Experiment, Histogram, Mark, Outcome, Report, Table, Target,
    farm::{
        chores::{Chores, steps_in},
        job::{Job, Way},
        mortal::Traces,
    },
    ranks::{Launch, Values, one},
    stats::{median, quantile},
    table::digits,
    verdict::Interval,
};

pub(super) const EXPERIMENT: Experiment = Experiment {
    name: "farm-deaths",
    about: "workers of a farm killed at random moments: results, hangs, and the time it costs",
    needs: "mpirun of Open MPI",
    run,
};

const RANKS: usize = 4;
/// Seconds of computing in all.
const WORK: f64 = 5.0;
const TASKS: usize = 2500;
/// A worker that is silent for so long is dead, if a thread of its own computes.
const SILENCE: Duration = Duration::from_secs(1);
/// The same if it computes on the thread that communicates, or has not said yet what it does.
const PEER: Duration = Duration::from_secs(3);
/// How long a run may take before it counts as hung.
const LIMIT: Duration = Duration::from_secs(60);
/// The part of an undisturbed run in which workers are killed.
const KILL_UNTIL: f64 = 0.9;
const SEED: u64 = 9;

fn run(report: &mut Report, smoke: bool) -> Outcome {
    let part = if smoke { 0.1 } else { 1.0 };
    let tasks = (part * TASKS as f64) as usize;
    let chores = Chores { tasks, mean: steps_in(WORK / TASKS as f64), deviation: 0.8, seed: SEED };
    let job = Job { chores, way: Way::Farm(Chunking::Auto), cores: Vec::new() };
    let folder = Path::new("target/bench/farm-deaths");
    let mut random = StdRng::seed_from_u64(SEED);
    // How long the farm takes with all ranks, without one, and without two, from its start.
    let mut undisturbed = Vec::new();
    for missing in 0..3 {
        let times = (0..if smoke { 1 } else { 5 }).map(|_| {
            let (values, _) = once(folder, &job, RANKS - missing, &[])?;
            Ok(values["seconds"])
        });
        undisturbed.push(median(&times.collect::<Outcome<Vec<f64>>>()?));
    }
    report.note(format!(
        "{tasks} tasks on {RANKS} ranks: {:.2} s undisturbed, {:.2} s with three ranks, {:.2} s with two",
        undisturbed[0], undisturbed[1], undisturbed[2]
    ));
    let columns = [
        "killed",
        "runs",
        "complete",
        "hung or failed",
        "median [s]",
        "longest [s]",
        "bound [s]",
        "begun again",
    ];
    let mut table = Table::new(&columns);
    let mut moments = Vec::new();
    for (dead, runs) in [(1, 50), (2, 20)] {
        let runs = if smoke { 2 } else { runs };
        let bound = undisturbed[dead] + PEER.as_secs_f64();
        let mut series = Series::default();
        while series.runs() < runs {
            let victims = draw(&mut random, dead, KILL_UNTIL * undisturbed[0]);
            match once(folder, &job, RANKS, &victims) {
                // The run was over before: that is no sample.
                Ok((_, killed)) if killed < dead => series.late += 1,
                Ok((values, _)) => {
                    moments.extend(victims.iter().map(|victim| victim.after));
                    series.times.push(values["seconds"]);
                    series.again.push(values["begun"] - tasks as f64);
                }
                Err(error) => {
                    report.note(format!("with {victims:?}: {error}"));
                    series.wrong += 1;
                }
            }
            if series.late > runs {
                return Err("runs are over before workers are killed".into());
            }
        }
        let longest = quantile(&series.times, 1.0);
        table.row([
            dead.into(),
            runs.into(),
            series.times.len().into(),
            series.wrong.into(),
            median(&series.times).into(),
            longest.into(),
            digits(bound, 3),
            digits(median(&series.again), 1),
        ]);
        let mut mark = |what: &str, value, unit: &str, target| {
            let what = format!("{dead} killed, {what}");
            report.mark(Mark::new(&what, Interval::exact(value), unit, target));
        };
        mark("hung, failed or wrong", series.wrong as f64, "runs", Target::AtMost(0.0));
        mark(
            "the longest run against the survivors' and the detection",
            longest / bound,
            "times the time",
            Target::AtMost(1.0),
        );
    }
    report.table("", &table)?;
    let mut plot = Histogram::new("When workers were killed", "time since the start of the farm [s]", 20);
    plot.add("kills", moments);
    report.histogram("", &plot)
}

/// What came of some runs.
#[derive(Default)]
struct Series {
    times: Vec<f64>,
    again: Vec<f64>,
    /// Hung, failed, or with an output that is not what it should be.
    wrong: usize,
    late: usize,
}

impl Series {
    fn runs(&self) -> usize {
        self.times.len() + self.wrong
    }
}

/// A worker to be killed, so many seconds after the start of the farm.
#[derive(Clone, Copy, Debug)]
struct Victim {
    rank: usize,
    after: f64,
}

/// So many workers at different moments, in the order of these.
fn draw(random: &mut StdRng, count: usize, until: f64) -> Vec<Victim> {
    let mut ranks: Vec<usize> = (1..RANKS).collect();
    ranks.shuffle(random);
    let mut victims: Vec<Victim> = ranks
        .into_iter()
        .take(count)
        .map(|rank| Victim { rank, after: until * random.random::<f64>() })
        .collect();
    victims.sort_by(|a, b| a.after.total_cmp(&b.after));
    victims
}

/// One run; returns its result line and how many were killed before it ended.
fn once(folder: &Path, job: &Job, ranks: usize, victims: &[Victim]) -> Outcome<(Values, usize)> {
    let traces = Traces::create(folder)?;
    let launch = Launch { limit: LIMIT, recovery: true, ..Launch::ranks(ranks) };
    let (ended, has_ended) = channel::<()>();
    let traces = &traces;
    let (output, killed) = thread::scope(|scope| {
        let killer = scope.spawn(move || {
            // Whether the run went on for so long.
            let goes_on = |time| matches!(has_ended.recv_timeout(time), Err(RecvTimeoutError::Timeout));
            while !traces.started() {
                if !goes_on(Duration::from_millis(1)) {
                    return 0;
                }
            }
            let start = Instant::now();
            let kill = |victim: &&Victim| {
                goes_on(Duration::from_secs_f64(victim.after).saturating_sub(start.elapsed()))
                    && traces
                        .process(victim.rank)
                        .and_then(Pid::from_raw)
                        .is_some_and(|process| kill_process(process, Signal::KILL).is_ok())
            };
            victims.iter().take_while(kill).count()
        });
        let output = launch.output("mortal", &traces.words([SILENCE, PEER], job));
        drop(ended);
        let killed = killer.join().map_err(|_| "the thread that kills failed")?;
        Outcome::Ok((output?, killed))
    })?;
    traces.check(job)?;
    let mut values = one(&output)?;
    values.insert("begun".into(), traces.begun(ranks) as f64);
    Ok((values, killed))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn victims_are_different_workers_in_the_order_of_their_moments() {
        let mut random = StdRng::seed_from_u64(1);
        for _ in 0..50 {
            let victims = draw(&mut random, 2, 3.0);
            assert!(victims[0].rank != victims[1].rank && victims.iter().all(|victim| victim.rank > 0));
            assert!(victims[0].after <= victims[1].after && victims[1].after < 3.0);
        }
    }
}

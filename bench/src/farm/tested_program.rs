//! Rank program that runs a [`TaskSet`] on a farm of the framework, as a user would write it.

use armature::farm::{Context, Farm, Worker};
use armature::{BoxError, Config, Progress, RunSummary, Session};
use armature_planner::farm::Chunking;

use super::{
    job::{Job, Way, print_result},
    task_set::{TaskSet, work},
};
use crate::{RunResult, burner::pin_rank, synthetic_work::fold};

/// Runs the rank program; prints `result seconds S busy S` on rank 0.
///
/// # Errors
/// If the arguments are wrong, the ranks cannot be pinned, or the checksum is wrong.
pub fn main(arguments: &[String]) -> RunResult {
    let job = Job::parse(arguments)?;
    let Way::Farm(chunking) = job.way else { return Err("expected farm=CHUNKING".into()) };
    pin_rank(&job.cores)?;
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| rank(session, job.task_set, chunking))?)
}

fn rank(session: &mut Session, task_set: TaskSet, chunking: Chunking) -> Result<(), BoxError> {
    let steps = task_set.steps()?;
    // A small farm with another function establishes the connections. The measured farm starts without knowledge of
    // its tasks' times.
    Farm::new("greeting", |x: u64| x).for_each(session, 0..8, |_, _| ())?;
    let mut sum = 0;
    let mut farm = Farm::worker("task set", || Ok(TaskSetWorker { steps: steps.clone() })).chunking(chunking);
    let run = farm.for_each(session, 0..task_set.tasks as u64, |_, result| sum = fold(sum, result))?;
    let Some(summary) = run.into_summary() else { return Ok(()) };
    if summary.tasks != task_set.tasks as u64 || sum != task_set.expected()? {
        return Err(format!("the results are wrong: {} tasks, checksum {sum:#x}", summary.tasks).into());
    }
    print_result(summary.elapsed, summary.busy());
    Ok(())
}

pub(super) struct TaskSetWorker {
    pub(super) steps: Vec<u64>,
}

impl Worker for TaskSetWorker {
    type In = u64;
    type Out = u64;

    fn work(&mut self, number: u64, _: &mut Context) -> Result<u64, BoxError> {
        let steps = self.steps.get(number as usize).ok_or("there is no such task")?;
        Ok(work(number, *steps))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_planner::farm::Published;

    #[test]
    fn results_are_correct_with_every_chunking_policy() {
        let task_set = TaskSet { tasks: 300, mean: 2000.0, deviation: 0.8, seed: 4 };
        for chunking in
            [Chunking::Auto, Chunking::Static, Chunking::Policy(Published::Fac2), Chunking::fixed(7)]
        {
            let config = Config::new().ranks(2).progress(Progress::Off);
            armature::run(&config, |session| rank(session, task_set, chunking)).unwrap();
        }
    }
}

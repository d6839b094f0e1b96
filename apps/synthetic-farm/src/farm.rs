//! Farm of workers that runs synthetic tasks and checks every result.

use crate::payload::{checksum, make, task_key};
use crate::plan::Plan;
use crate::report::{Iteration, Report};
use crate::work_method::WorkMethod;
use armature::farm::{Context, Farm, Summary, Worker};
use armature::{BoxError, Session, Stopwatch};
use armature_apps::farm::FarmArgs;
use serde::{Deserialize, Serialize};
use std::sync::OnceLock;

#[derive(Debug, Serialize, Deserialize)]
struct SyntheticTask {
    /// Amount of work in the unit of the chosen [`WorkMethod`], for example seconds of sleep.
    work: f64,
    #[serde(with = "armature::raw")]
    payload: Vec<u8>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Answer {
    seconds: f64,
    checksum: u64,
    /// Bytes that only give the result its size, generated from the checksum.
    #[serde(with = "armature::raw")]
    payload: Vec<u8>,
}

struct SyntheticWorker {
    work_method: WorkMethod,
    result_bytes: usize,
    clock: Stopwatch,
}

impl Worker for SyntheticWorker {
    type In = SyntheticTask;
    type Out = Answer;

    fn work(&mut self, task: SyntheticTask, cx: &mut Context) -> Result<Answer, BoxError> {
        let start = self.clock.elapsed();
        self.work_method.run(task.work, |flops| cx.declare(flops, || ()));
        let checksum = checksum(&task.payload);
        let payload = make(checksum, self.result_bytes);
        let seconds = self.clock.elapsed().saturating_sub(start).as_secs_f64();
        Ok(Answer { seconds, checksum, payload })
    }
}

/// Returns the tasks of one iteration, with `speed` units of work for each second of their times.
fn tasks(plan: &Plan, speed: f64, times: &[f64], key: u64) -> impl Iterator<Item = SyntheticTask> {
    let bytes = plan.task_bytes;
    (0..).zip(times).map(move |(number, &time)| SyntheticTask {
        work: speed * time,
        payload: make(task_key(key, number), bytes),
    })
}

/// Checks the results of an iteration. Returns the key from which the bytes of the next iteration's tasks are generated; the key depends on all
/// results.
fn check(plan: &Plan, iteration: usize, key: u64, answers: &[Answer]) -> Result<u64, String> {
    if answers.len() as u64 != plan.tasks {
        return Err(format!("iteration {iteration}: {} results, expected {}", answers.len(), plan.tasks));
    }
    let mut next = key;
    for (number, answer) in (0..).zip(answers) {
        let expected = checksum(&make(task_key(key, number), plan.task_bytes));
        if answer.checksum != expected {
            return Err(format!(
                "iteration {iteration}, task {number}: the checksum of the received bytes is {:016x}, expected \
                 {expected:016x}",
                answer.checksum
            ));
        }
        if answer.payload != make(expected, plan.result_bytes) {
            return Err(format!("iteration {iteration}, task {number}: the bytes of the result are wrong"));
        }
        next = task_key(next ^ expected, number);
    }
    Ok(next)
}

/// Runs the tasks of the plan together with the other ranks. Returns the measured efficiency and the summary of the farm on rank 0.
///
/// # Errors
/// The errors of the farm, and a wrong result.
pub fn run_farm(
    session: &mut Session,
    plan: &Plan,
    work_method: WorkMethod,
    options: &FarmArgs,
) -> Result<Option<(Report, Summary)>, BoxError> {
    let (clock, result_bytes) = (session.stopwatch(), plan.result_bytes);
    let mut farm = options.set_up(
        session,
        Farm::worker("labour", move || Ok(SyntheticWorker { work_method, result_bytes, clock })),
    );
    if !session.is_root() {
        farm.iterate(session, [], |_, _| Ok(None))?;
        return Ok(None);
    }
    let speed = work_method.speed();
    let mut times = plan.times(0);
    let mut key = plan.seed;
    let mut iterations = Vec::new();
    // The first iteration starts when the farm takes its first task, and later iterations start when their tasks have been created.
    let drawn = OnceLock::new();
    let first: Vec<SyntheticTask> = tasks(plan, speed, &times, key).collect();
    let first = first.into_iter().inspect(|_| {
        drawn.get_or_init(|| clock.elapsed());
    });
    let mut began = None;
    let next = |answers: Vec<Answer>, iteration: usize| {
        let end = clock.elapsed();
        let begin = began.or(drawn.get().copied()).unwrap_or(end);
        let makespan = end.saturating_sub(begin).as_secs_f64();
        let busy = answers.iter().map(|answer| answer.seconds).sum();
        iterations.push(Iteration { work: times.iter().sum(), busy, makespan });
        key = check(plan, iteration, key, &answers)?;
        if iteration + 1 >= plan.iterations {
            return Ok(None);
        }
        times = plan.times(iteration + 1);
        let tasks = tasks(plan, speed, &times, key).collect();
        began = Some(clock.elapsed());
        Ok(Some(tasks))
    };
    let outcome = farm.iterate(session, first, next)?;
    Ok(outcome.into_summary().map(|summary| {
        let report = Report {
            workers: summary.workers(),
            chunking: summary.chunking.clone(),
            tasks: plan.tasks,
            iterations,
            checksum: key,
        };
        (report, summary)
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        tasks: 30,
        iterations: 2,
        mean: 0.0,
        deviation: 0.0,
        block: 1,
        task_bytes: 13,
        result_bytes: 29,
        seed: 4,
    };

    fn answers(plan: &Plan, key: u64) -> Vec<Answer> {
        let clock = armature::run(&armature::Config::new(), |session| Ok(session.stopwatch())).unwrap();
        let mut worker =
            SyntheticWorker { work_method: WorkMethod::Sleep, result_bytes: plan.result_bytes, clock };
        let mut cx = Context::for_test();
        tasks(plan, 1.0, &plan.times(0), key).map(|task| worker.work(task, &mut cx).unwrap()).collect()
    }

    #[test]
    fn correct_results_pass_and_determine_the_next_key() {
        let next = check(&PLAN, 0, 4, &answers(&PLAN, 4)).unwrap();
        assert_ne!(next, 4);
        assert_ne!(next, check(&PLAN, 0, 5, &answers(&PLAN, 5)).unwrap());
        let bare = Plan { task_bytes: 0, result_bytes: 0, ..PLAN };
        assert!(check(&bare, 0, 4, &answers(&bare, 4)).is_ok());
    }

    #[test]
    fn check_detects_wrong_results() {
        let found = |spoil: fn(&mut Vec<Answer>)| {
            let mut answers = answers(&PLAN, 4);
            spoil(&mut answers);
            check(&PLAN, 1, 4, &answers).unwrap_err()
        };
        assert!(found(|a| a[17].checksum ^= 1).contains("iteration 1, task 17: the checksum"));
        assert!(found(|a| a[3].payload[28] ^= 1).contains("task 3: the bytes of the result"));
        assert!(found(|a| a.swap(5, 6)).contains("task 5"));
        assert!(found(|a| drop(a.pop())).contains("29 results, expected 30"));
    }
}

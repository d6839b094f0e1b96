//! Workflow whose tasks only declare their work to the simulator, run on simulated hosts by a given plan (assignment of tasks to ranks).
//!
//! The only argument is `job=FILE`, a [`Job`] in JSON. Prints `result seconds S sent S spilled S misplaced N`: the simulated seconds, the bytes that
//! ranks sent to each other, the bytes written to disk, and the number of tasks that ran elsewhere than planned.

use std::process::ExitCode;

use armature::Session;
use armature::workflow::{PlanOptions, Workflow};
use armature_bench_simulated::workflows::{DECLARES, Job};
use armature_bench_simulated::{RunResult, run, settings};

fn main() -> ExitCode {
    run("armature-bench-simulated-workflow", parse, rank)
}

fn parse(arguments: &[String]) -> RunResult<Job> {
    let mut file = None;
    settings(arguments, |name, value| {
        if name == "job" {
            file = Some(value.to_string());
        }
        Ok(name == "job")
    })?;
    let file = file.ok_or("expected job=FILE")?;
    let text = std::fs::read(&file).map_err(|error| format!("cannot read {file}: {error}"))?;
    Ok(serde_json::from_slice(&text)?)
}

/// Upper bound of the bytes that serialization adds to the value that a task sends to its successors.
const ENCODING_BYTES: u64 = 64;

fn rank(job: &Job, session: &mut Session) -> RunResult {
    let value_bytes: Vec<usize> =
        job.value_bytes().iter().map(|bytes| bytes.saturating_sub(ENCODING_BYTES) as usize).collect();
    let mut options = PlanOptions::default();
    options.memory.task_memory = job.task_memory;
    let workflow = Workflow::from_description(job.describe()?).plan(options).cluster(job.cluster()?);
    let mut workflow = workflow.follow(job.plan.clone()).closure(DECLARES, |inputs, cx| {
        let parents: Vec<usize> = inputs.names().map(str::parse).collect::<Result<_, _>>()?;
        for (&parent, value) in parents.iter().zip(inputs.take_all::<Vec<u8>>()?) {
            if value != vec![parent as u8; value_bytes[parent]] {
                return Err(format!("what task {parent} gave is not what it gives").into());
            }
        }
        let task = cx.number() as usize;
        Ok(cx.declare(job.work[task], || vec![task as u8; value_bytes[task]]))
    });
    let Some(summary) = workflow.run(session)?.into_summary() else { return Ok(()) };
    let of = |part: fn(&armature::workflow::RankReport) -> u64| summary.ranks.iter().map(part).sum::<u64>();
    let ran_on = summary.measured.iter().map(|measured| measured.as_ref().map(|measured| measured.rank));
    let misplaced =
        ran_on.zip(&job.plan.processor_of).filter(|(rank, planned)| *rank != Some(**planned)).count();
    println!(
        "result seconds {} sent {} spilled {} misplaced {misplaced}",
        summary.elapsed.as_secs_f64(),
        of(|rank| rank.sent),
        of(|rank| rank.spilled)
    );
    Ok(())
}

//! Prints how the skeletons begin on ranks whose speeds and memory were known before the job started:
//!
//! ```text
//! mpirun -n 3 armature-platform
//! ```
//!
//! A line contains a number for each rank: the indices of a loop that does not balance, the tasks of a farm's first chunk, the workflow tasks that
//! need 100 MB. The line `pipeline` contains the planned mapping.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use armature::farm::{Chunking, Farm, Published};
use armature::loops::ParallelFor;
use armature::pipeline::Pipeline;
use armature::workflow::{Action, Description, Inputs, Task, Workflow};
use armature::{Balance, BoxError, Config, Session};

fn main() -> ExitCode {
    armature::exit_code(armature::run(&Config::from_env().unwrap_or_default(), begin).map_err(BoxError::from))
}

fn begin(session: &mut Session) -> Result<(), BoxError> {
    let counts = loop_indices(session)?;
    print(session, "loop", &counts);
    let counts = first_chunks(session)?;
    print(session, "farm", &counts);
    let counts = large_tasks(session)?;
    print(session, "workflow", &counts);
    let mapping = mapping(session)?;
    print(session, "pipeline", &mapping);
    Ok(())
}

fn print(session: &Session, what: &str, value: &impl std::fmt::Debug) {
    if session.is_root() {
        println!("{what} {value:?}");
    }
}

fn compute(time: Duration) {
    let begin = Instant::now();
    while begin.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn loop_indices(session: &mut Session) -> Result<Option<Vec<u64>>, BoxError> {
    let mut count = 0;
    ParallelFor::new("indices", 0..60).balance(Balance::Off).run(session, |range| {
        count += range.end - range.start;
        Ok(())
    })?;
    Ok(session.gather(count)?)
}

/// Returns the number of tasks of each rank in the first batch of chunks, with which AWF-B (a chunking method) hands out half of the tasks.
fn first_chunks(session: &mut Session) -> Result<Vec<u64>, BoxError> {
    let mut farm = Farm::with_context("chunks", |_: u64, cx| {
        compute(Duration::from_millis(2));
        Ok(cx.rank())
    });
    farm = farm.chunking(Chunking::Policy(Published::AwfB)).dedicated_master().request_ahead(0);
    let mut ranks = vec![0; 80];
    farm.for_each(session, 0..80, |done, rank| ranks[done as usize] = rank)?;
    let of_rank = |rank: usize| ranks[..40].iter().filter(|&&other| other == rank).count() as u64;
    Ok((0..session.size()).map(of_rank).collect())
}

fn large_tasks(session: &mut Session) -> Result<Vec<u64>, BoxError> {
    let mut builder = Description::builder("large");
    for number in 0..6 {
        let mut task = Task::new(number.to_string(), Action::Closure("large".into()));
        (task.memory, task.run_time) = (Some(100_000_000), Some(0.01));
        builder.task(task);
    }
    let mut workflow =
        Workflow::from_description(builder.build()?).closure("large", |_: &mut Inputs<'_>, _| {
            compute(Duration::from_millis(10));
            Ok(0_u8)
        });
    let summary = workflow.run(session)?.into_summary();
    Ok(summary.map_or_else(Vec::new, |summary| summary.ranks.iter().map(|rank| rank.tasks).collect()))
}

/// Returns the mapping of stages to ranks that was planned after the stages were measured.
fn mapping(session: &mut Session) -> Result<Option<String>, BoxError> {
    let pipeline = Pipeline::source("numbers", || 0..200_u64).map("work", |number| {
        compute(Duration::from_millis(2));
        number
    });
    let summary = pipeline
        .serial()
        .stateless()
        .balance(Balance::Once)
        .for_each(session, "count", |_| ())?
        .into_summary();
    Ok(summary.map(|summary| summary.mapping_text.clone()))
}

//! Workflow of closures that return values of a given size, on ranks of which some are killed.

use std::fs;
use std::sync::Once;
use std::thread;
use std::time::{Duration, Instant};

use armature::workflow::{Action, Description, Inputs, Task, Workflow};
use armature::{BoxError, Config, Context, Progress, Session};

use super::kill_run::KillRun;
use crate::{RunResult, deaths::RunFolder};

const TASK_TIME: Duration = Duration::from_millis(1);

/// Parameters of a workflow of closures with values of a given size.
#[derive(Clone, Copy, Debug)]
pub struct Valued {
    /// Number of tasks.
    pub tasks: usize,
    /// Bytes of a value.
    pub bytes: usize,
    /// True if values are kept in a journal (file of finished results).
    pub journal: bool,
    /// Seed of the dependences between tasks.
    pub seed: u64,
}

impl Valued {
    /// Returns the arguments of the rank program.
    pub fn arguments(self, run_folder: &RunFolder) -> Vec<String> {
        let Valued { tasks, bytes, journal, seed } = self;
        let arguments = [tasks.to_string(), bytes.to_string(), journal.to_string(), seed.to_string()];
        std::iter::once(run_folder.folder().display().to_string()).chain(arguments).collect()
    }

    fn parents(self) -> Vec<Vec<usize>> {
        KillRun { tasks: self.tasks, seed: self.seed }.parents()
    }
}

/// Returns the name of the file by which a rank reports that it has started a task.
pub fn joined_file_name(rank: usize) -> String {
    format!("come-{rank}")
}

fn number(task: usize, parents: impl Iterator<Item = u64>) -> u64 {
    parents.fold(task as u64, |sum, parent| sum.rotate_left(7).wrapping_mul(31).wrapping_add(parent))
}

/// Runs the rank program. Rank 0 prints `result seconds S again N lost N`: the time, the number of tasks run again
/// because of a lost rank, and the number of lost ranks.
///
/// # Errors
/// If the arguments are wrong, or a task returned a wrong value.
pub fn main(arguments: &[String]) -> RunResult {
    let [folder, tasks, bytes, journal, seed] = arguments else {
        return Err(format!("expected FOLDER TASKS BYTES JOURNAL SEED, got {arguments:?}").into());
    };
    let (run_folder, tasks, bytes) = (RunFolder::at(folder), tasks.parse()?, bytes.parse()?);
    let valued = Valued { tasks, bytes, journal: journal.parse()?, seed: seed.parse()? };
    let config = Config::from_env()?.progress(Progress::Off);
    Ok(armature::run(&config, |session| rank(session, &run_folder, valued))?)
}

fn rank(session: &mut Session, run_folder: &RunFolder, valued: Valued) -> Result<(), BoxError> {
    run_folder.register_process(session.rank())?;
    let (parents, words) = (valued.parents(), (valued.bytes / 8).max(1));
    let mut builder = Description::builder("valued");
    for (task, parents) in parents.iter().enumerate() {
        builder.task(Task::new(task.to_string(), Action::Closure("value".into())));
        for parent in parents {
            builder.edge(parent.to_string(), task.to_string(), 0);
        }
    }
    let (has_joined, rank) = (Once::new(), session.rank());
    let value = |inputs: &mut Inputs<'_>, cx: &Context| {
        has_joined.call_once(|| {
            // A failed write is harmless: the file only reports that this rank takes part, and a rank without a file
            // is not killed.
            let _ = fs::write(run_folder.path(&joined_file_name(rank)), "");
        });
        thread::sleep(TASK_TIME);
        let inputs: Vec<Vec<u64>> = inputs.take_all()?;
        Ok(vec![number(cx.number() as usize, inputs.iter().map(|input| input[words - 1])); words])
    };
    // Up to three ranks that run a task may be killed. With fewer retries, the task would count as the cause of their
    // deaths, and fail.
    let mut workflow = Workflow::from_description(builder.build()?).retries(3).closure("value", value);
    if valued.journal {
        workflow = workflow.journal(run_folder.path("journal"), &format!("{valued:?}"));
    }
    if session.is_root() {
        run_folder.record_start()?;
    }
    let start = Instant::now();
    let Some((mut results, summary)) = workflow.collect(session)?.into_parts() else { return Ok(()) };
    let seconds = start.elapsed().as_secs_f64();
    let mut expected: Vec<u64> = Vec::new();
    for (task, parents) in parents.iter().enumerate() {
        expected.push(number(task, parents.iter().map(|&parent| expected[parent])));
    }
    let names: Vec<String> = results.names().map(String::from).collect();
    for name in names {
        let (task, value): (usize, Vec<u64>) = (name.parse()?, results.take(&name)?);
        if value != vec![expected[task]; words] {
            return Err(format!("task {task} has given {}, expected {}", value[0], expected[task]).into());
        }
    }
    if summary.tasks != valued.tasks as u64 {
        return Err(format!("{} of {} tasks are done", summary.tasks, valued.tasks).into());
    }
    println!("result seconds {seconds} again {} lost {}", summary.again, summary.lost.len());
    Ok(())
}

//! `armature stop`, which ends a run at a checkpoint, and `armature cancel`, which ends it at once.

use std::ffi::OsString;

use armature::job_status::AFTER_CHECKPOINT;
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::batch::{NoAnswer, query, slurm};
use crate::cli::print;
use crate::error::LaunchError;
use crate::run_directory::recorder::write_stop_file;
use crate::run_directory::reference::Reference;
use crate::run_directory::state::{Facts, Stage, stage};

/// Exit code of `armature stop` and `armature cancel` if the run has already ended.
const ENDED: u8 = 3;

/// Ask a run to stop at a checkpoint, from which the same command continues.
///
/// RUN is a directory, `last`, the name of a run in armature-runs, or the number of a batch job. The file `stop` in the run directory asks rank 0 to
/// stop; no signal is sent. The exit code of a run that has stopped is 85.
///
/// The run writes a checkpoint and stops. With --after-checkpoint it continues until its next regular checkpoint is due, so that it writes none in
/// addition. Farms and workflows stop in the same way with and without it, because their journals are always up to date.
///
/// Exit code: 0; 3 if the run does not run; 2 if there is no such run.
#[derive(Debug, Args)]
pub(crate) struct Stop {
    /// Run [default: last]
    #[arg(value_name = "RUN")]
    run: Option<OsString>,
    /// Stop when the next checkpoint of a loop or snapshot of a pipeline is due, and not at once
    #[arg(long)]
    after_checkpoint: bool,
}

/// End a run at once, or remove it from the queue. Its files stay.
///
/// RUN is a directory, `last`, the name of a run in armature-runs, or the number of a batch job. A batch job is cancelled with scancel. A run that was
/// started on this host gets SIGTERM.
///
/// Exit code: 0; 3 if the run has already ended or the batch system refuses; 2 if there is no such run; 4 if there is no batch system here; 1 if the
/// run was started on another host.
#[derive(Debug, Args)]
pub(crate) struct Cancel {
    /// Run [default: last]
    #[arg(value_name = "RUN")]
    run: Option<OsString>,
}

/// Asks a run, or all running elements of a job array, to stop. The exit code is 0 if at least one run was asked, otherwise 3.
pub(crate) fn stop(args: &Stop) -> Result<u8, LaunchError> {
    let queue = slurm::queue();
    let mut code = ENDED;
    for run in Reference::recorded(args.run.as_deref())?.run.elements() {
        let name = run.name();
        match stage(&Facts::read(&run, &queue)) {
            (Stage::Running, _) => {
                let (why, at) = match args.after_checkpoint {
                    true => (&*format!("armature stop {AFTER_CHECKPOINT}"), "its next checkpoint"),
                    false => ("armature stop", "a checkpoint"),
                };
                write_stop_file(&run, why)?;
                print(&format!("{name} is asked to stop at {at}\n"))?;
                code = 0;
            }
            (Stage::Waiting, _) => {
                let text =
                    format!("{name} has not started; `armature cancel {name}` removes it from the queue\n");
                print(&text)?;
            }
            (stage, why) => {
                already_ended(&name, stage, &why)?;
            }
        }
    }
    Ok(code)
}

pub(crate) fn cancel(args: &Cancel) -> Result<u8, LaunchError> {
    let run = Reference::recorded(args.run.as_deref())?.run;
    let (name, queue) = (run.name(), slurm::queue());
    let facts = Facts::read(&run, &queue);
    if let Some(elements) = run.array() {
        if elements.iter().all(|element| stage(&Facts::read(element, &queue)).0.has_ended()) {
            return print(&format!("all elements of {name} have already ended\n")).map(|_| ENDED);
        }
    } else if let (stage, why) = stage(&facts)
        && stage.has_ended()
    {
        return already_ended(&name, stage, &why);
    }
    let start = facts.start.as_ref().filter(|_| facts.is_alive == Some(true) && facts.end.is_none());
    match (start, &facts.batch) {
        // Only the process `armature run` gets a signal. Its batch job is not cancelled, because other programs of the user may run in the same
        // allocation.
        (Some(start), _) => {
            let process = i32::try_from(start.process).ok().and_then(Pid::from_raw);
            let sent =
                process.map_or(Err(rustix::io::Errno::SRCH), |process| kill_process(process, Signal::TERM));
            sent.map_err(|error| LaunchError::io(format!("signal process {}", start.process))(error.into()))?;
            print(&format!("{name} is being ended: SIGTERM was sent to process {}\n", start.process))
        }
        (None, Some(batch)) => {
            let program = if batch.system == "slurm" { "scancel" } else { "qdel" };
            match query(program, [batch.job.as_str()]) {
                Ok(answer) if answer.is_success => {
                    print(&format!("{name} is being ended: {program} {}\n", batch.job))
                }
                Ok(answer) => Err(LaunchError::Batch { program, reply: answer.errors }),
                Err(NoAnswer::Missing) => Err(LaunchError::NoBatch { program }),
                Err(NoAnswer::Silent) => Err(LaunchError::Batch { program, reply: "no answer".into() }),
            }
        }
        (None, None) => {
            let host = facts.start.map(|start| start.host).unwrap_or_default();
            Err(LaunchError::Elsewhere { run: name, host })
        }
    }
}

fn already_ended(name: &str, stage: Stage, why: &str) -> Result<u8, LaunchError> {
    let why = if why.is_empty() || why == stage.word() { String::new() } else { format!(" ({why})") };
    print(&format!("{name} has already ended: {}{}\n", stage.word(), armature_text::line(why))).map(|_| ENDED)
}

//! Puts the Slurm job back into the queue after its ranks have stopped for the time limit or a preemption.

use std::ffi::OsString;
use std::path::Path;

use crate::batch::{NoAnswer, query};
use crate::message::print_message;
use crate::run_directory::attempt::Attempt;
use crate::run_directory::end_reason::{End, Reason};
use crate::run_directory::{RunDirectory, SCRIPT};

/// Decision whether the batch job is put back into the queue after `armature run` has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// The job is requeued after a stop for its time limit. The number counts its requeues so far, this one included.
    Requeue(u32),
    /// The job is requeued after it was stopped for a job of higher priority.
    Preempted,
    /// The job is not requeued, because the user's limit of requeues is reached.
    UsedUp,
    /// The job is not requeued, because the program did not stop for the time limit, or the job is in the queue already.
    No,
}

/// Decides from the ends of all attempts (starts of the program) of a run. Only stops for the time limit count towards `allowed`.
///
/// Slurm requeues a preempted job only if it still runs at the end of its grace time. Otherwise this process must requeue it.
fn decide(ends: &[End], allowed: u32) -> Next {
    let is_limit = |end: &&End| end.reason == Reason::TimeLimit && end.stopped;
    match ends.last().filter(|end| end.stopped && !end.requeued) {
        Some(End { reason: Reason::Preempted, .. }) => Next::Preempted,
        Some(end) if is_limit(&end) && allowed > 0 => {
            let number = u32::try_from(ends.iter().filter(is_limit).count()).unwrap_or(u32::MAX);
            if number > allowed { Next::UsedUp } else { Next::Requeue(number) }
        }
        _ => Next::No,
    }
}

/// Requeues the Slurm job of this process, at most `allowed` times for its time limit and always after a preemption.
pub(crate) fn requeue(run: &RunDirectory, allowed: u32) {
    let Ok(job) = std::env::var("SLURM_JOB_ID") else { return };
    let ends: Vec<End> =
        run.attempts().into_iter().filter_map(|number| Attempt::of(run, number).end()).collect();
    // The message is printed before the requeue, because Slurm may end this process as soon as the job is requeued.
    match decide(&ends, allowed) {
        Next::No => return,
        Next::UsedUp => {
            print_message(format_args!(
                "the job has been requeued {allowed} times and is not requeued again"
            ));
            return;
        }
        Next::Preempted => print_message(format_args!("requeue after a preemption: scontrol requeue {job}")),
        Next::Requeue(number) => {
            print_message(format_args!("requeue {number} of {allowed}: scontrol requeue {job}"));
        }
    }
    let failure = match query("scontrol", ["requeue", &job]) {
        Ok(answer) if answer.is_success => return,
        Ok(answer) => answer.errors,
        Err(NoAnswer::Missing) => "there is no scontrol on this host".into(),
        Err(NoAnswer::Silent) => "scontrol did not answer".into(),
    };
    let failure = armature_text::line(failure.trim());
    let submitted = if allowed > 0 { submit_successor(run, &job) } else { Err(String::new()) };
    match submitted {
        Ok(successor) => print_message(format_args!("{failure}: the run continues as job {successor}")),
        Err(why) => {
            let why = if why.is_empty() { why } else { format!("; sbatch: {why}") };
            print_message(format_args!(
                "the job cannot be requeued: {failure}{why}. Submit the same script again to continue"
            ));
        }
    }
}

/// Submits the job script again, to start after this job. Returns the number of the new job, and records it in the run directory.
fn submit_successor(run: &RunDirectory, job: &str) -> Result<String, String> {
    let runs = run.path().parent().unwrap_or(Path::new("."));
    // The script of a job array is in the run directory of the array and not in those of its elements.
    let element = std::env::var("SLURM_ARRAY_TASK_ID").ok();
    let of_array =
        |element: &String| run.name().strip_suffix(&format!(".{element}-1")).map(|array| runs.join(array));
    let directory = element.as_ref().and_then(of_array).unwrap_or_else(|| run.path().to_path_buf());
    let script = directory.join(SCRIPT);
    if !script.is_file() {
        return Err(format!("there is no {}", script.display()));
    }
    let mut args = vec!["--parsable".into(), format!("--dependency=afterany:{job}")];
    args.extend(element.map(|element| format!("--array={element}")));
    let args = args.into_iter().map(OsString::from).chain([script.into_os_string()]);
    let answer = query("sbatch", args).map_err(|_| "there was no answer".to_string())?;
    let successor = answer.output.trim().split(';').next().unwrap_or_default();
    if !answer.is_success || successor.is_empty() {
        return Err(armature_text::line(answer.errors.trim()));
    }
    if let Some(Err(error)) = Attempt::newest(run).map(|attempt| attempt.add_successor(successor)) {
        print_message(error);
    }
    Ok(successor.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_stops_for_the_time_limit_are_requeued_and_counted() {
        let end = |reason, stopped| End {
            schema: 1,
            reason,
            detail: String::new(),
            code: 85,
            stopped,
            requeued: false,
            successor: None,
            stop_seconds: None,
            done: 0,
            seconds: 1.0,
            ended: String::new(),
        };
        let (limit, preempted) = (end(Reason::TimeLimit, true), end(Reason::Preempted, true));
        assert_eq!(decide(&[], 3), Next::No);
        assert_eq!(decide(std::slice::from_ref(&limit), 0), Next::No);
        assert_eq!(decide(std::slice::from_ref(&limit), 1), Next::Requeue(1));
        let both = [limit.clone(), preempted.clone(), limit.clone()];
        assert_eq!((decide(&both, 2), decide(&both, 1)), (Next::Requeue(2), Next::UsedUp));
        // Slurm itself requeues a job that it has ended, or whose program did not stop when asked.
        assert_eq!(decide(&[limit.clone(), preempted.clone()], 3), Next::Preempted);
        assert_eq!(decide(std::slice::from_ref(&preempted), 0), Next::Preempted);
        assert_eq!(decide(&[end(Reason::Preempted, false)], 3), Next::No);
        assert_eq!(decide(&[End { requeued: true, ..preempted }], 3), Next::No);
        assert_eq!(decide(&[End { requeued: true, ..limit }], 3), Next::No);
        assert_eq!(decide(&[end(Reason::TimeLimit, false)], 3), Next::No);
        assert_eq!(decide(&[end(Reason::Stopped, true)], 3), Next::No);
    }
}

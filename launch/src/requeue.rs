//! Requeue of the batch job after a stop for its time limit.

use crate::batch::{NoAnswer, query};
use crate::message::print_message;
use crate::run_directory::RunDirectory;
use crate::run_directory::attempt::Attempt;
use crate::run_directory::end_reason::{End, Reason};

/// Decision after the last attempt of this process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// Requeue the job. The number counts the requeues so far, including this one.
    Requeue(u32),
    /// The job was already requeued as often as allowed.
    UsedUp,
    /// The last attempt did not stop because of the time limit.
    No,
}

/// Decides from the ends of all attempts if the job is requeued. Only stops because of the time limit count, because Slurm itself requeues
/// a job that was preempted or has lost a node.
fn decide(ends: &[End], allowed: u32) -> Next {
    let is_limit = |end: &&End| end.reason == Reason::TimeLimit && end.stopped;
    if allowed == 0 || ends.last().filter(is_limit).is_none() {
        return Next::No;
    }
    let number = u32::try_from(ends.iter().filter(is_limit).count()).unwrap_or(u32::MAX);
    if number > allowed { Next::UsedUp } else { Next::Requeue(number) }
}

/// Requeues the Slurm job of this process if its last attempt has stopped because of the time limit. A run is requeued at most `allowed`
/// times.
pub(crate) fn requeue(run: &RunDirectory, allowed: u32) {
    let ends: Vec<End> =
        run.attempts().into_iter().filter_map(|number| Attempt::of(run, number).end()).collect();
    match decide(&ends, allowed) {
        Next::No => {}
        Next::UsedUp => {
            print_message(format_args!("the job has been requeued {allowed} times and is not requeued again"))
        }
        Next::Requeue(number) => {
            let job = std::env::var("SLURM_JOB_ID").unwrap_or_default();
            // The message comes first, because Slurm may end this process as soon as the job is requeued.
            print_message(format_args!("requeue {number} of {allowed}: scontrol requeue {job}"));
            let failure = match query("scontrol", ["requeue", &job]) {
                Ok(answer) if answer.is_success => return,
                Ok(answer) => answer.errors,
                Err(NoAnswer::Missing) => "there is no scontrol on this host".into(),
                Err(NoAnswer::Silent) => "scontrol did not answer".into(),
            };
            let failure = failure.trim();
            print_message(format_args!(
                "the job cannot be requeued: {failure}. Submit the same script again to continue"
            ));
        }
    }
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
        assert_eq!(decide(&[limit, preempted], 3), Next::No);
        assert_eq!(decide(&[end(Reason::TimeLimit, false)], 3), Next::No);
        assert_eq!(decide(&[end(Reason::Stopped, true)], 3), Next::No);
    }
}

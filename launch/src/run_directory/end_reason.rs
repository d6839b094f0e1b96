//! Reason for the end of an attempt: `why.json`. The pure function [`reason`] decides it from the
//! status file of the ranks, the kernel's counter of kills for lack of memory, and the state that
//! the batch system reports.

use std::fmt;

use armature::job_status::{JobStatus, STOPPED, State};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::batch::BatchState;
use crate::batch::messages::Cause;

/// Maximum time in seconds between the warning of a batch system and the end of the job. A job that stops within this time before its end has stopped
/// for the time limit. It is also the maximum of `--warn` of `armature submit`.
pub(crate) const WARNING: u64 = 600;

/// Number of seconds by which Slurm may send the warning signal of `--signal` too early, according to `man sbatch`.
const EARLY: u64 = 60;

/// Tolerance between the clock of this host and that of the batch system, in seconds.
const CLOCK: u64 = 5;

/// State that Slurm reports for a job that it is ending, because the job was cancelled or has
/// reached its time limit, while `armature run` still runs in the job.
const ENDING: &str = "COMPLETING";

/// Reason for the end of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reason {
    /// The program has finished without an error.
    #[serde(rename = "finished")]
    Finished,
    /// The program has failed.
    #[serde(rename = "own error")]
    OwnError,
    /// The batch job, or the job with the option `--timeout`, has reached its time limit.
    #[serde(rename = "time limit")]
    TimeLimit,
    /// The batch system needed the nodes for another job.
    #[serde(rename = "preempted")]
    Preempted,
    /// A user has cancelled the job.
    #[serde(rename = "cancelled")]
    Cancelled,
    /// The batch job has lost a node.
    #[serde(rename = "lost node")]
    LostNode,
    /// The kernel has killed a process because it was out of memory.
    #[serde(rename = "out of memory")]
    OutOfMemory,
    /// Not all ranks have started.
    #[serde(rename = "start failed")]
    StartFailed,
    /// The batch system does not answer.
    #[serde(rename = "batch system gone")]
    BatchSystemGone,
    /// A user has asked the job to stop at a checkpoint.
    #[serde(rename = "stopped")]
    Stopped,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Finished => "finished",
            Reason::OwnError => "own error",
            Reason::TimeLimit => "time limit",
            Reason::Preempted => "preempted",
            Reason::Cancelled => "cancelled",
            Reason::LostNode => "lost node",
            Reason::OutOfMemory => "out of memory",
            Reason::StartFailed => "start failed",
            Reason::BatchSystemGone => "batch system gone",
            Reason::Stopped => "stopped",
        })
    }
}

/// Record of the end of an attempt.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    /// Version of the format of `why.json`.
    pub(crate) schema: u32,
    pub(crate) reason: Reason,
    /// Details of the end as a part of a sentence; empty if there are none.
    pub(crate) detail: String,
    /// Exit code of the attempt.
    pub(crate) code: u8,
    /// True if the job has stopped at a checkpoint.
    pub(crate) stopped: bool,
    /// True if the batch system has put the job back into the queue.
    #[serde(default)]
    pub(crate) requeued: bool,
    /// Job of the batch system that continues the run, if it is another job.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) successor: Option<String>,
    /// Seconds from a request to stop until the end of the attempt, if the process that started the job has received the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop_seconds: Option<f64>,
    /// Number of tasks, items, loop units (rows or indices) or sweeps that the ranks have completed.
    pub(crate) done: u64,
    /// Duration of the attempt in seconds.
    pub(crate) seconds: f64,
    /// Time at which the attempt ended.
    pub(crate) ended: String,
}

impl End {
    /// Creates the record of an attempt that ends now, `seconds` seconds after its start.
    pub(crate) fn new(seen: &Evidence, seconds: f64) -> Self {
        let (reason, detail) = reason(seen);
        End {
            schema: 1,
            reason,
            detail,
            code: seen.code,
            stopped: seen.code == STOPPED,
            requeued: seen.batch.is_requeued,
            successor: None,
            stop_seconds: seen.stop_seconds.map(rounded),
            done: seen.status.as_ref().map_or(0, |status| status.done),
            seconds: rounded(seconds),
            ended: super::description::now(),
        }
    }
}

/// Observations about the end of an attempt, from which the reason for its end is decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    /// Exit code of the attempt.
    pub(crate) code: u8,
    /// Job status that the ranks have written.
    pub(crate) status: Option<JobStatus>,
    /// Signal that asked this process to end or to stop the job.
    pub(crate) signal: Option<u8>,
    /// True if `--timeout` has ended the job.
    pub(crate) timed_out: bool,
    /// True if the kernel has killed a process because it was out of memory.
    pub(crate) out_of_memory: bool,
    /// Reason for which the job could not start, if one was detected.
    pub(crate) missing: Option<String>,
    /// Seconds since the request to stop, if the process that started the job has received the request.
    pub(crate) stop_seconds: Option<f64>,
    /// State of the batch job at the end of the attempt.
    pub(crate) batch: BatchState,
    /// Reason for the end of the job that the daemons of the batch system have printed to the log.
    pub(crate) cause: Option<Cause>,
}

/// Returns the reason for the end of an attempt, and details of it. If several reasons apply, the
/// order of the checks decides.
fn reason(seen: &Evidence) -> (Reason, String) {
    let state = seen.status.as_ref().map(|status| status.state);
    let message = seen.status.as_ref().map(|status| status.message.clone()).unwrap_or_default();
    let is_own_failure =
        seen.status.as_ref().is_some_and(|status| status.state == State::Failed && !status.restart);
    let kept = seen.status.as_ref().map(|status| status.kept.clone()).unwrap_or_default();
    let batch = &seen.batch;
    if seen.code == 0 {
        return (Reason::Finished, String::new());
    }
    let limit = || (Reason::TimeLimit, kept.clone());
    let is_warning = [SIGUSR1, SIGUSR2].iter().any(|&warning| seen.signal.map(i32::from) == Some(warning));
    let ends_within = |seconds: u64| batch.seconds_left.is_some_and(|left| left <= seconds);
    let is_preempted =
        batch.is_preempted || batch.state == "PREEMPTED" || seen.cause == Some(Cause::Preemption);
    let was_ended_by = |cause: Cause, state: &str| seen.cause == Some(cause) || batch.state == state;
    if seen.code == STOPPED {
        return match seen.signal {
            _ if is_preempted => (Reason::Preempted, kept),
            // A message about a lost node (`NodeFailure`) alone is not enough: the run may have survived the loss of
            // the node and stopped later for a reason that is checked below.
            _ if batch.state == "NODE_FAIL" => (Reason::LostNode, kept),
            _ if batch.is_requeued && seen.cause == Some(Cause::NodeFailure) => (Reason::LostNode, kept),
            _ if was_ended_by(Cause::TimeLimit, "TIMEOUT") => limit(),
            _ if batch.state == "CANCELLED" => (Reason::Cancelled, kept),
            _ if batch.state == ENDING => {
                if ends_within(CLOCK) {
                    limit()
                } else {
                    (Reason::Cancelled, kept)
                }
            }
            Some(_) if is_warning && ends_within(WARNING + EARLY) => limit(),
            Some(_) if ends_within(CLOCK) => limit(),
            // The ranks stop without a request if no task can end before the time limit of the batch job.
            _ if seen.status.as_ref().is_some_and(JobStatus::stopped_for_time_limit) => limit(),
            _ => (Reason::Stopped, kept),
        };
    }
    if is_own_failure && seen.signal.is_none() && !seen.out_of_memory {
        return (Reason::OwnError, message);
    }
    if seen.out_of_memory || batch.state == "OUT_OF_MEMORY" {
        return (Reason::OutOfMemory, message);
    }
    if seen.timed_out {
        return (Reason::TimeLimit, "--timeout".into());
    }
    if is_preempted {
        return (Reason::Preempted, String::new());
    }
    if batch.has_lost_nodes || was_ended_by(Cause::NodeFailure, "NODE_FAIL") {
        return (Reason::LostNode, message);
    }
    if was_ended_by(Cause::TimeLimit, "TIMEOUT") {
        return limit();
    }
    // The exit codes 129, 130 and 143 show that SIGHUP, SIGINT or SIGTERM has ended a rank.
    let was_requested = seen.signal.filter(|_| !is_warning).is_some()
        || matches!(seen.code, 129 | 130 | 143)
        || batch.state == ENDING
        || matches!(seen.cause, Some(Cause::Cancelled | Cause::Requeue));
    if batch.state == "CANCELLED" || was_requested {
        return if ends_within(CLOCK) && batch.state != "CANCELLED" {
            limit()
        } else {
            (Reason::Cancelled, cancelled_by(seen))
        };
    }
    if let Some(missing) = &seen.missing {
        return (Reason::StartFailed, missing.clone());
    }
    if is_own_failure {
        return (Reason::OwnError, message);
    }
    if batch.is_missing {
        return (Reason::BatchSystemGone, "the batch system did not answer".into());
    }
    match state {
        Some(State::Starting) => (Reason::StartFailed, message),
        _ if message.is_empty() => (Reason::OwnError, format!("exit code {}", seen.code)),
        _ => (Reason::OwnError, message),
    }
}

/// Rounds seconds to milliseconds.
fn rounded(seconds: f64) -> f64 {
    (seconds * 1000.0).round() / 1000.0
}

fn cancelled_by(seen: &Evidence) -> String {
    match seen.cause {
        Some(Cause::Requeue) => return "the job was requeued".into(),
        Some(Cause::Cancelled) if seen.signal.is_none() => return "Slurm has ended its step".into(),
        _ => {}
    }
    let signal = seen.signal.map(i32::from).or_else(|| (seen.code > 128).then(|| i32::from(seen.code) - 128));
    signal.and_then(signal_hook::low_level::signal_name).map(str::to_string).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, restart: bool, message: &str) -> Option<JobStatus> {
        let mut status = JobStatus::default();
        (status.state, status.restart, status.message) = (state, restart, message.into());
        Some(status)
    }

    fn slurm(state: &str) -> BatchState {
        BatchState { state: state.into(), seconds_left: Some(5_000), ..BatchState::default() }
    }

    #[track_caller]
    fn expect(seen: Evidence, expected: Reason) {
        assert_eq!(reason(&seen).0, expected, "{seen:?}");
    }

    #[test]
    fn each_end_reason_follows_from_its_evidence() {
        let failed = |code: u8| Evidence { code, batch: slurm("RUNNING"), ..Evidence::default() };
        let near = |state: &str| BatchState { seconds_left: Some(1), ..slurm(state) };
        expect(Evidence { status: status(State::Finished, false, ""), ..failed(0) }, Reason::Finished);
        expect(failed(3), Reason::OwnError);
        expect(Evidence { status: status(State::Failed, false, "no fuel"), ..failed(1) }, Reason::OwnError);
        expect(
            Evidence { status: status(State::Failed, true, "rank 2 died"), ..failed(137) },
            Reason::OwnError,
        );
        expect(Evidence { out_of_memory: true, ..failed(137) }, Reason::OutOfMemory);
        expect(Evidence { batch: slurm("OUT_OF_MEMORY"), ..failed(137) }, Reason::OutOfMemory);
        expect(Evidence { timed_out: true, ..failed(124) }, Reason::TimeLimit);
        expect(Evidence { signal: Some(15), batch: near("RUNNING"), ..failed(143) }, Reason::TimeLimit);
        expect(Evidence { batch: slurm("TIMEOUT"), ..failed(143) }, Reason::TimeLimit);
        expect(Evidence { signal: Some(15), ..failed(143) }, Reason::Cancelled);
        expect(failed(130), Reason::Cancelled);
        // A job that a user cancels just before its time limit counts as cancelled.
        expect(Evidence { signal: Some(15), batch: near("CANCELLED"), ..failed(143) }, Reason::Cancelled);
        let preempted = BatchState { is_preempted: true, ..slurm("RUNNING") };
        expect(Evidence { signal: Some(15), batch: preempted, ..failed(143) }, Reason::Preempted);
        let fewer = BatchState { has_lost_nodes: true, ..slurm("RUNNING") };
        expect(Evidence { batch: fewer, ..failed(137) }, Reason::LostNode);
        expect(Evidence { batch: slurm("NODE_FAIL"), signal: Some(15), ..failed(143) }, Reason::LostNode);
        expect(Evidence { missing: Some("rank 3 is missing".into()), ..failed(1) }, Reason::StartFailed);
        expect(Evidence { status: status(State::Starting, false, ""), ..failed(1) }, Reason::StartFailed);
        let missing = BatchState { is_missing: true, ..BatchState::default() };
        expect(Evidence { batch: missing, ..failed(1) }, Reason::BatchSystemGone);
        // The reason for the end is the one that the daemons of Slurm have printed.
        for (cause, expected) in [
            (Cause::Preemption, Reason::Preempted),
            (Cause::NodeFailure, Reason::LostNode),
            (Cause::TimeLimit, Reason::TimeLimit),
            (Cause::Requeue, Reason::Cancelled),
            (Cause::Cancelled, Reason::Cancelled),
        ] {
            expect(Evidence { cause: Some(cause), ..failed(137) }, expected);
        }
        let own = Evidence { status: status(State::Failed, false, "no fuel"), ..failed(1) };
        expect(Evidence { cause: Some(Cause::Cancelled), ..own }, Reason::OwnError);
    }

    #[test]
    fn stop_counts_as_time_limit_only_near_the_limit() {
        let left = |seconds: u64| BatchState { seconds_left: Some(seconds), ..slurm("RUNNING") };
        let stopped = Evidence { code: STOPPED, batch: left(100), ..Evidence::default() };
        expect(Evidence { signal: Some(SIGUSR1 as u8), ..stopped.clone() }, Reason::TimeLimit);
        expect(
            Evidence { signal: Some(SIGUSR1 as u8), batch: left(1_000), ..stopped.clone() },
            Reason::Stopped,
        );
        // If the ranks have stopped and this process has received no signal, `armature stop` has requested the stop.
        expect(stopped.clone(), Reason::Stopped);
        expect(Evidence { signal: Some(15), batch: left(0), ..stopped.clone() }, Reason::TimeLimit);
        expect(Evidence { signal: Some(15), ..stopped.clone() }, Reason::Stopped);
        let preempted = BatchState { is_preempted: true, ..slurm("RUNNING") };
        expect(Evidence { batch: preempted, ..stopped.clone() }, Reason::Preempted);
        let mut status = JobStatus::default();
        (status.state, status.kept) =
            (State::Stopped, "stopped by the time limit of the job (task 7 …) after 9 s".into());
        expect(Evidence { status: Some(status), ..stopped }, Reason::TimeLimit);
    }

    #[test]
    fn program_error_is_not_attributed_to_other_causes() {
        let failed =
            Evidence { code: 1, status: status(State::Failed, false, "no fuel"), ..Evidence::default() };
        let missing = BatchState { is_missing: true, ..BatchState::default() };
        assert_eq!(reason(&Evidence { batch: missing, ..failed }), (Reason::OwnError, "no fuel".into()));
        assert_eq!(reason(&Evidence { code: 7, ..Evidence::default() }).1, "exit code 7");
        assert_eq!(reason(&Evidence { code: 143, ..Evidence::default() }).1, "SIGTERM");
    }

    #[test]
    fn end_reasons_are_displayed_as_text() {
        for reason in [
            Reason::Finished,
            Reason::OwnError,
            Reason::TimeLimit,
            Reason::Preempted,
            Reason::Cancelled,
            Reason::LostNode,
            Reason::OutOfMemory,
            Reason::StartFailed,
            Reason::BatchSystemGone,
            Reason::Stopped,
        ] {
            assert_eq!(serde_json::to_string(&reason).unwrap(), format!("\"{reason}\""));
        }
    }
}

//! Decides why an attempt (one start of the program) has ended: [`reason`] reads the status file of the ranks, the kernel's counter of kills for lack
//! of memory, and the state that the batch system reports.

use std::fmt;

use armature::job_status::{JobStatus, STOPPED, State};
use serde::{Deserialize, Serialize};
use signal_hook::consts::{SIGUSR1, SIGUSR2};

use crate::batch::BatchState;
use crate::batch::messages::Cause;

/// Longest time in seconds between the warning signal of a batch system and the end of the job. A program that stops within this time counts as
/// stopped for the time limit. Also the maximum of `--warn` of `armature submit`.
pub(crate) const WARNING: u64 = 600;

/// Seconds by which Slurm may send the signal of its option `--signal` too early, according to `man sbatch`.
const EARLY: u64 = 60;

/// Tolerance for the difference between the clocks of this host and of the batch system, in seconds.
const CLOCK: u64 = 5;

/// Slurm's word for a job that it is ending (cancelled or at its time limit) while `armature run` still runs in the job.
const ENDING: &str = "COMPLETING";

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Reason {
    #[serde(rename = "finished")]
    Finished,
    #[serde(rename = "own error")]
    OwnError,
    #[serde(rename = "time limit")]
    TimeLimit,
    #[serde(rename = "preempted")]
    Preempted,
    #[serde(rename = "cancelled")]
    Cancelled,
    #[serde(rename = "lost node")]
    LostNode,
    #[serde(rename = "out of memory")]
    OutOfMemory,
    #[serde(rename = "start failed")]
    StartFailed,
    #[serde(rename = "batch system gone")]
    BatchSystemGone,
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

/// Content of `why.json`: when and why an attempt (one start of the program) has ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct End {
    pub(crate) schema: u32,
    pub(crate) reason: Reason,
    pub(crate) detail: String,
    pub(crate) code: u8,
    pub(crate) stopped: bool,
    #[serde(default)]
    pub(crate) requeued: bool,
    /// Number of another batch job that continues the run of this one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) successor: Option<String>,
    /// Seconds from a request to `armature run` to stop the program at a checkpoint until the program has ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) stop_seconds: Option<f64>,
    /// Number of tasks, items, rows or sweeps that the ranks have completed.
    pub(crate) done: u64,
    pub(crate) seconds: f64,
    pub(crate) ended: String,
}

impl End {
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

/// Observations from which the reason for the end of an attempt is decided.
#[derive(Clone, Debug, Default)]
pub(crate) struct Evidence {
    pub(crate) code: u8,
    pub(crate) status: Option<JobStatus>,
    /// Signal by which `armature run` was asked to end or to stop the program.
    pub(crate) signal: Option<u8>,
    pub(crate) timed_out: bool,
    pub(crate) out_of_memory: bool,
    /// Error message of a launcher that could not start the ranks.
    pub(crate) missing: Option<String>,
    /// Seconds since `armature run` was asked to stop the program at a checkpoint.
    pub(crate) stop_seconds: Option<f64>,
    pub(crate) batch: BatchState,
    /// Reason for the end of the job that the daemons of Slurm have printed to the log.
    pub(crate) cause: Option<Cause>,
}

/// If several reasons for the end of an attempt apply, the first one in this order counts.
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
            // Slurm's message about a lost node is not enough: the ranks may have survived the loss, and stopped later for a reason that is checked
            // below.
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
            // Without a request, ranks stop only if no task can end before the time limit of the batch job.
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
    // Exit code 129, 130 or 143 means that SIGHUP, SIGINT or SIGTERM has ended a rank.
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
        // A job that a user cancels shortly before its time limit counts as cancelled.
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
        // A reason for the end of a job that the daemons of Slurm have printed takes precedence.
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
        // Ranks that stopped without a signal to `armature run` were stopped by the command `armature stop`.
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

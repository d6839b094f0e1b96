//! Decides if a run waits, runs or has ended, from its run directory and from the queue of the batch system.

use armature::job_status::{JobStatus, STOPPED};

use super::RunDirectory;
use super::attempt::{Attempt, Start};
use super::description::{BatchJob, Description};
use super::end_reason::{End, Reason};
use super::log::Log;
use crate::batch::NoAnswer;
use crate::batch::messages::{self, Cause};
use crate::batch::slurm::{self, Queued};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    Waiting,
    Running,
    Stopped,
    Finished,
    Failed,
}

impl Stage {
    /// Returns the exit code with which `armature status` reports this stage.
    pub(crate) fn code(self) -> u8 {
        match self {
            Stage::Finished => 0,
            Stage::Failed => 1,
            Stage::Waiting | Stage::Running => 3,
            Stage::Stopped => STOPPED,
        }
    }

    pub(crate) fn has_ended(self) -> bool {
        !matches!(self, Stage::Waiting | Stage::Running)
    }

    pub(crate) fn word(self) -> &'static str {
        match self {
            Stage::Waiting => "waiting",
            Stage::Running => "running",
            Stage::Stopped => "stopped",
            Stage::Finished => "finished",
            Stage::Failed => "failed",
        }
    }
}

/// This user's jobs in the queue of the batch system, or the reason why the queue could not be read.
pub(crate) type Queue = Result<Vec<Queued>, NoAnswer>;

/// State of a run: the files in its directory, and the entry of its batch job in the queue.
#[derive(Clone, Debug, Default)]
pub(crate) struct Facts {
    /// Number of the newest attempt (start of the program); 0 if there is none.
    pub(crate) attempt: u32,
    pub(crate) start: Option<Start>,
    pub(crate) end: Option<End>,
    pub(crate) status: Option<JobStatus>,
    /// Batch job of the newest attempt (start of the program); before the first attempt, the job that was submitted.
    pub(crate) batch: Option<BatchJob>,
    pub(crate) queued: Option<Queued>,
    pub(crate) knows_queue: bool,
    /// True if the `armature run` of the newest attempt is alive; `None` if it is on another host.
    pub(crate) is_alive: Option<bool>,
    /// State of the job in Slurm's accounting, if the job has left the queue and no process has recorded why its attempt ended.
    pub(crate) final_state: Option<String>,
}

impl Facts {
    /// Reads the run directory; `queue` must have been read at about the same time.
    pub(crate) fn read(run: &RunDirectory, queue: &Queue) -> Self {
        let attempt = Attempt::newest(run);
        let start = attempt.as_ref().and_then(Attempt::start);
        let submitted = Description::read(run).and_then(|description| description.batch);
        let end = attempt.as_ref().and_then(Attempt::end);
        let successor = end.as_ref().and_then(|end| end.successor.clone());
        let batch = successor
            .map(|job| BatchJob { system: "slurm".into(), job })
            .or_else(|| start.as_ref().and_then(|start| start.batch.clone()))
            .or(submitted);
        let of_run = |job: &BatchJob| {
            let is_job = |queued: &&Queued| queued.job == job.job || is_element(&queued.job, &job.job);
            queue.as_ref().ok()?.iter().find(is_job).cloned()
        };
        let mut facts = Facts {
            attempt: attempt.as_ref().map_or(0, Attempt::number),
            is_alive: start.as_ref().and_then(Start::is_alive),
            status: attempt.as_ref().and_then(Attempt::status),
            queued: batch.as_ref().filter(|batch| batch.system == "slurm").and_then(of_run),
            knows_queue: queue.is_ok(),
            final_state: None,
            start,
            end,
            batch,
        };
        let is_lost = facts.end.is_none() && facts.queued.is_none() && facts.is_alive != Some(true);
        if let Some(batch) = facts.batch.as_ref().filter(|batch| is_lost && batch.system == "slurm") {
            // The accounting is asked only if the log has no message of Slurm, because not every site has an accounting.
            let offset = facts.start.as_ref().map_or(0, |start| start.log_offset);
            let printed = messages::cause_in(&Log::tail(&run.log(), offset)).and_then(Cause::state);
            facts.final_state = printed.map(str::to_string).or_else(|| slurm::final_state(&batch.job));
        }
        facts
    }
}

/// Returns true if the job number `queued`, such as `48211_3`, is that of an element of the job array `job`.
fn is_element(queued: &str, job: &str) -> bool {
    queued.strip_prefix(job).is_some_and(|rest| rest.starts_with('_'))
}

/// Returns the stage of a run (it waits, runs or has ended) and the reason, which is printed for the user.
pub(crate) fn stage(facts: &Facts) -> (Stage, String) {
    const ENDED: [&str; 8] = [
        "COMPLETED",
        "FAILED",
        "CANCELLED",
        "TIMEOUT",
        "NODE_FAIL",
        "PREEMPTED",
        "OUT_OF_MEMORY",
        "BOOT_FAIL",
    ];
    let queued = facts.queued.as_ref().filter(|queued| !ENDED.contains(&queued.state.as_str()));
    if let Some(queued) = queued.filter(|queued| !queued.is_running()) {
        return (Stage::Waiting, waiting(queued, facts.end.as_ref()));
    }
    if let Some(end) = &facts.end {
        // A requeued job runs for a moment before its next attempt begins, so that the run still counts as running.
        let may_continue =
            end.requeued || matches!(end.reason, Reason::TimeLimit | Reason::Preempted | Reason::LostNode);
        if may_continue && queued.is_some_and(|queued| queued.state == "RUNNING") {
            return (
                Stage::Running,
                format!("its batch job runs, after an attempt that ended: {}", end.reason),
            );
        }
        return (ended(end), why(end));
    }
    let job = facts.batch.as_ref();
    let left = || {
        let state = facts.final_state.clone().or_else(|| Some(facts.queued.as_ref()?.state.clone()));
        match (state, job) {
            (Some(state), _) if facts.attempt == 0 => {
                format!("its batch job ended as {state} before an attempt started")
            }
            (Some(state), _) => format!("its batch job ended as {state}, without a record of its end"),
            (None, Some(job)) => {
                format!("its batch job {} has left the queue without a record of its end", job.job)
            }
            (None, None) => "it was killed: the process that started it has ended without a record".into(),
        }
    };
    match (&facts.start, facts.is_alive, job) {
        (Some(_), Some(true), _) => (Stage::Running, String::new()),
        _ if queued.is_some() => (Stage::Running, String::new()),
        (Some(_), Some(false), _) => (Stage::Failed, left()),
        (_, None, Some(job)) if facts.knows_queue && job.system == "slurm" => (Stage::Failed, left()),
        (Some(start), None, _) => (
            Stage::Running,
            format!("as far as {} can tell: it runs on {}", crate::supervise::host(), start.host),
        ),
        (None, _, Some(job)) => {
            (Stage::Waiting, format!("the queue with its batch job {} cannot be read", job.job))
        }
        (None, _, None) => (Stage::Failed, "it was created, but has not started".into()),
    }
}

fn waiting(queued: &Queued, end: Option<&End>) -> String {
    let before = end.map(|end| format!(", after an attempt that ended: {}", end.reason)).unwrap_or_default();
    let start =
        if queued.start == "N/A" { String::new() } else { format!(", expected start {}", queued.start) };
    let reason = queued.reason.trim_matches(['(', ')']);
    format!("{}{start}{before}", if reason == "None" { "not scheduled yet" } else { reason })
}

fn ended(end: &End) -> Stage {
    match end.reason {
        Reason::Finished => Stage::Finished,
        _ if end.stopped => Stage::Stopped,
        _ => Stage::Failed,
    }
}

/// Returns the text about the end of an attempt: its reason and detail. The reason is left out if the detail begins with it.
pub(crate) fn why(end: &End) -> String {
    let reason = end.reason.to_string();
    match end.detail.as_str() {
        "" => reason,
        detail if detail.starts_with(&reason) => detail.into(),
        detail => format!("{reason}: {detail}"),
    }
}

pub(crate) fn advice(end: &End, run: &str) -> Option<String> {
    Some(match end.reason {
        Reason::Finished | Reason::OwnError | Reason::Cancelled => return None,
        _ if end.stopped => {
            format!("armature run --run {run} with the same command: it continues at its checkpoint")
        }
        Reason::TimeLimit => "a longer --time, or --warn and --requeue of armature submit".into(),
        Reason::OutOfMemory => {
            "more memory for each rank (--mem-per-rank of armature submit), or fewer ranks on each host"
                .into()
        }
        Reason::StartFailed => format!("armature logs {run}: the messages of the launcher"),
        Reason::BatchSystemGone => "sinfo: whether the batch system answers again".into(),
        _ => format!(
            "armature run --run {run} with the same command: it resumes if it has a journal or a checkpoint"
        ),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn end(reason: Reason, code: u8) -> End {
        End {
            schema: 1,
            reason,
            detail: String::new(),
            code,
            stopped: code == STOPPED,
            requeued: false,
            successor: None,
            stop_seconds: None,
            done: 0,
            seconds: 1.0,
            ended: String::new(),
        }
    }

    #[test]
    fn end_reason_is_shown_once() {
        let of = |reason, detail: &str| why(&End { detail: detail.into(), ..end(reason, 85) });
        assert_eq!(of(Reason::Stopped, "stopped by SIGTERM after 5.0 s"), "stopped by SIGTERM after 5.0 s");
        assert_eq!(of(Reason::TimeLimit, "the job ends at 12:00"), "time limit: the job ends at 12:00");
        assert_eq!(of(Reason::Cancelled, ""), "cancelled");
    }

    fn queued(state: &str) -> Option<Queued> {
        let reason = "(Resources)".into();
        Some(Queued {
            job: "7".into(),
            state: state.into(),
            reason,
            start: "N/A".into(),
            ..Queued::default()
        })
    }

    fn facts() -> Facts {
        Facts {
            attempt: 1,
            start: Some(Start { host: "n1".into(), ..Start::default() }),
            batch: Some(BatchJob { system: "slurm".into(), job: "7".into() }),
            knows_queue: true,
            ..Facts::default()
        }
    }

    #[track_caller]
    fn expect(facts: Facts, expected: Stage, part: &str) {
        let (stage, why) = stage(&facts);
        assert!(stage == expected && why.contains(part), "{stage:?} {why}");
    }

    #[test]
    fn stages_follow_from_the_queue_and_the_record() {
        expect(Facts { queued: queued("RUNNING"), ..facts() }, Stage::Running, "");
        expect(
            Facts { attempt: 0, start: None, queued: queued("PENDING"), ..facts() },
            Stage::Waiting,
            "Resources",
        );
        let requeued =
            Facts { queued: queued("PENDING"), end: Some(end(Reason::TimeLimit, STOPPED)), ..facts() };
        expect(requeued, Stage::Waiting, "after an attempt that ended: time limit");
        let restarted =
            Facts { queued: queued("RUNNING"), end: Some(end(Reason::TimeLimit, STOPPED)), ..facts() };
        expect(restarted, Stage::Running, "after an attempt that ended: time limit");
        let stopped =
            Facts { queued: queued("RUNNING"), end: Some(end(Reason::Stopped, STOPPED)), ..facts() };
        expect(stopped.clone(), Stage::Stopped, "stopped");
        let requeued = stopped.end.clone().map(|end| End { requeued: true, ..end });
        expect(Facts { end: requeued, ..stopped }, Stage::Running, "after an attempt that ended: stopped");
        expect(Facts { end: Some(end(Reason::Finished, 0)), ..facts() }, Stage::Finished, "finished");
        expect(Facts { end: Some(end(Reason::Stopped, STOPPED)), ..facts() }, Stage::Stopped, "stopped");
        expect(Facts { end: Some(end(Reason::OwnError, 3)), ..facts() }, Stage::Failed, "own error");
        // `squeue` shows a job for some time after its end, which must not hide the recorded end.
        expect(
            Facts { end: Some(end(Reason::OwnError, 3)), queued: queued("FAILED"), ..facts() },
            Stage::Failed,
            "own",
        );
        expect(Facts { queued: queued("CANCELLED"), ..facts() }, Stage::Failed, "CANCELLED");
        let failed_node = Facts { final_state: Some("NODE_FAIL".into()), ..facts() };
        expect(failed_node, Stage::Failed, "its batch job ended as NODE_FAIL");
        expect(facts(), Stage::Failed, "its batch job 7 has left the queue");
    }

    #[test]
    fn process_on_this_host_decides_without_a_batch_system() {
        let local = || Facts { batch: None, knows_queue: false, ..facts() };
        expect(Facts { is_alive: Some(true), ..local() }, Stage::Running, "");
        expect(Facts { is_alive: Some(false), ..local() }, Stage::Failed, "it was killed");
        expect(local(), Stage::Running, "it runs on n1");
        expect(Facts { start: None, ..local() }, Stage::Failed, "has not started");
        // If the queue cannot be read, the run must not count as ended.
        expect(Facts { knows_queue: false, ..facts() }, Stage::Running, "it runs on n1");
        expect(Facts { knows_queue: false, start: None, ..facts() }, Stage::Waiting, "cannot be read");
    }

    #[test]
    fn elements_of_an_array_belong_to_its_job() {
        assert!(is_element("7_3", "7") && !is_element("71_3", "7") && !is_element("7", "7"));
    }
}

//! State of a job, read from the status file that rank 0 writes.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use armature::job_status::{EVENTS_COPY, JobStatus, STOPPED, State, place};
use armature::observe::newest_attempt;

use crate::error::LaunchError;
use crate::supervise::is_alive;

const EVENTS: &str = "ARMATURE_EVENTS";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JobState {
    /// The job has no status file, so that its state is not known.
    Unknown,
    Starting,
    /// The job is running, or its processes are on another host and cannot be observed.
    Running,
    Finished,
    Failed {
        code: u8,
        message: String,
    },
    /// The job has stopped on request with its results so far. The same command continues it.
    Stopped {
        kept: String,
    },
    /// Rank 0 and the process that started the job have died, and the status file does not say that the job has ended.
    Killed,
}

impl JobState {
    /// Returns the state of a job from its status file. `alive` returns true if a process of the job is alive, or `None` if the job runs on another
    /// host.
    pub(crate) fn of(status: Option<&JobStatus>, alive: impl Fn(&JobStatus, u32) -> Option<bool>) -> Self {
        let Some(status) = status else { return JobState::Unknown };
        let is_dead = |process| alive(status, process) == Some(false);
        match status.state {
            State::Finished => JobState::Finished,
            State::Stopped => JobState::Stopped { kept: status.kept.clone() },
            State::Failed => JobState::Failed { code: status.code.max(1), message: status.message.clone() },
            _ if status.process != 0
                && is_dead(status.process)
                && (status.starter == 0 || is_dead(status.starter)) =>
            {
                JobState::Killed
            }
            State::Starting => JobState::Starting,
            _ => JobState::Running,
        }
    }

    pub(crate) fn code(&self) -> Option<u8> {
        match self {
            JobState::Unknown | JobState::Starting | JobState::Running => None,
            JobState::Finished => Some(0),
            JobState::Failed { code, .. } => Some(*code),
            JobState::Stopped { .. } => Some(STOPPED),
            // A killed job has no exit code, because no process was left that could have recorded one.
            JobState::Killed => Some(1),
        }
    }
}

impl std::fmt::Display for JobState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            JobState::Unknown => f.write_str("the log has no job status"),
            JobState::Starting => f.write_str("starting"),
            JobState::Running => f.write_str("running"),
            JobState::Finished => f.write_str("finished, exit code 0"),
            JobState::Failed { code, message } if message.is_empty() => {
                write!(f, "failed, exit code {code}")
            }
            JobState::Failed { code, message } => write!(f, "failed, exit code {code}: {message}"),
            JobState::Stopped { kept } if kept.is_empty() => write!(f, "stopped, exit code {STOPPED}"),
            JobState::Stopped { kept } => write!(f, "stopped, exit code {STOPPED}: {kept}"),
            JobState::Killed => f.write_str("killed: rank 0 has died without a final status"),
        }
    }
}

/// Returns true if a process of the job is alive, or `None` if it is on another host or in another PID namespace.
pub(crate) fn alive_here(status: &JobStatus, process: u32) -> Option<bool> {
    (!status.place.is_empty() && status.place == place()).then(|| is_alive(process))
}

/// Returns the job status of the newest attempt (start of the job).
pub(crate) fn status_in(directory: &Path) -> Result<Option<JobStatus>, LaunchError> {
    JobStatus::read(&newest_attempt(directory).join(EVENTS_COPY)).map_err(LaunchError::JobStatus)
}

/// Writes the launcher's exit code to the status file of a job, which is in the directory of its event log.
#[derive(Debug)]
pub(crate) struct ExitCodeRecord {
    directory: PathBuf,
    before: Option<JobStatus>,
}

impl ExitCodeRecord {
    /// Reads the status file before the job starts, to see later if the job has changed it. `None` if the job has no event log.
    pub(crate) fn before_start(events: Option<OsString>) -> Option<Self> {
        let directory = PathBuf::from(events.filter(|name| !name.is_empty())?);
        let before = status_in(&directory).ok().flatten();
        Some(ExitCodeRecord { directory, before })
    }

    pub(crate) fn of_environment() -> Option<Self> {
        ExitCodeRecord::before_start(std::env::var_os(EVENTS))
    }

    /// Writes the launcher's exit code `code` to the status file, and returns the exit code of the job. The result is 1 instead of 0 if the ranks
    /// have ended without a final status. One such case: `srun` ends with 0 after the loss of a node. A status that agrees with `code` is kept, and
    /// so is the message of a failed job. A status that has not changed since the start of the job belongs to an earlier job, and is not modified.
    pub(crate) fn write(self, code: u8) -> u8 {
        let Ok(Some(mut status)) = status_in(&self.directory) else { return code };
        let is_of_another = self.before.is_some_and(|before| before == status);
        let is_recorded = match status.state {
            State::Finished => code == 0,
            State::Stopped => code == STOPPED,
            _ => false,
        };
        if is_of_another || is_recorded {
            return code;
        }
        if status.state != State::Failed {
            status.message = match status.state {
                State::Stopped => "the program has failed after its ranks had stopped".into(),
                State::Finished => "the program has failed after its ranks had finished".into(),
                _ => "the program has ended without a final status".to_string(),
            };
        }
        // The exit code is at least 1, because a job without the status `Finished` has not succeeded.
        (status.state, status.code) = (State::Failed, code.max(1));
        let _ = status.write(&newest_attempt(&self.directory).join(EVENTS_COPY));
        status.code
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(state: State, starter: u32) -> JobStatus {
        let mut status = JobStatus::default();
        (status.state, status.process, status.starter) = (state, 10, starter);
        status
    }

    #[test]
    fn job_counts_as_killed_when_no_process_can_report_its_end() {
        let only = |lives: u32| move |_: &JobStatus, process: u32| Some(process == lives);
        let of = |state, starter, lives| JobState::of(Some(&status(state, starter)), only(lives));
        assert_eq!(of(State::Running, 0, 10), JobState::Running);
        assert_eq!(of(State::Running, 0, 99), JobState::Killed);
        assert_eq!(of(State::Starting, 0, 99), JobState::Killed);
        // The process `armature run` is still alive, so that it will record the exit code or restart the job.
        assert_eq!(of(State::Running, 20, 20), JobState::Running);
        assert_eq!(of(State::Running, 20, 99), JobState::Killed);
        assert_eq!(of(State::Finished, 0, 99), JobState::Finished);
        // The processes of a job on another host cannot be observed, so that the job counts as running.
        assert_eq!(JobState::of(Some(&status(State::Running, 0)), |_, _| None), JobState::Running);
        assert_eq!(JobState::of(None, |_, _| Some(false)), JobState::Unknown);
    }

    #[test]
    fn exit_code_is_stored_with_the_events_of_the_same_job_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(EVENTS_COPY);
        let before_start = || ExitCodeRecord::before_start(Some(dir.path().into())).unwrap();
        let end = |state, code| {
            let record = before_start();
            status(state, 7).write(&file).unwrap();
            let exit = record.write(code);
            let text = JobState::of(status_in(dir.path()).unwrap().as_ref(), |_, _| Some(true));
            std::fs::remove_file(&file).unwrap();
            assert_eq!(text.code(), Some(exit));
            text
        };
        assert_eq!(end(State::Finished, 0), JobState::Finished);
        assert_eq!(end(State::Stopped, 85), JobState::Stopped { kept: String::new() });
        assert_eq!(end(State::Stopped, 3).code(), Some(3));
        assert_eq!(end(State::Running, 137).code(), Some(137));
        assert_eq!(end(State::Running, 0).code(), Some(1));
        assert_eq!(end(State::Failed, 3).code(), Some(3));
        assert_eq!(end(State::Finished, 9).code(), Some(9));
        assert!(end(State::Finished, 9).to_string().contains("after its ranks had finished"));
        // The job has written no status, so that the status of an earlier job in the file must be kept.
        status(State::Running, 0).write(&file).unwrap();
        assert_eq!(before_start().write(0), 0);
        assert_eq!(status_in(dir.path()).unwrap(), Some(status(State::Running, 0)));
        assert!(
            ExitCodeRecord::before_start(None).is_none()
                && ExitCodeRecord::before_start(Some("".into())).is_none()
        );
    }
}

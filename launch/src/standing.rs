//! State of a job, from the job status in the directory of its events.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use armature::job_status::{BESIDE_EVENTS, JobStatus, State, place};
use armature::observe::newest_attempt;

use crate::error::LaunchError;
use crate::supervise::is_alive;

/// Environment variable with the directory of a program's event log.
const EVENTS: &str = "ARMATURE_EVENTS";

/// State of a job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The log has no job status.
    Unknown,
    /// The ranks of the job are starting.
    Starting,
    /// The job is running, as far as this host can tell.
    Running,
    /// The job has finished successfully.
    Finished,
    /// The job has ended with an error.
    Failed {
        code: u8,
        /// Reason, if the job status has one.
        message: String,
    },
    /// Rank 0 has died without a final status, and the process that started the job is gone as well.
    Killed,
}

impl Standing {
    /// Returns the state that a job status describes. `alive` returns true if a process of the job is alive, and `None` if that is unknown
    /// because the job runs on another host.
    pub(crate) fn of(status: Option<&JobStatus>, alive: impl Fn(&JobStatus, u32) -> Option<bool>) -> Self {
        let Some(status) = status else { return Standing::Unknown };
        let is_gone = |process| alive(status, process) == Some(false);
        match status.state {
            State::Finished => Standing::Finished,
            State::Failed => Standing::Failed { code: status.code.max(1), message: status.message.clone() },
            _ if status.process != 0
                && is_gone(status.process)
                && (status.starter == 0 || is_gone(status.starter)) =>
            {
                Standing::Killed
            }
            State::Starting => Standing::Starting,
            _ => Standing::Running,
        }
    }

    /// Returns the exit code of the job, once it has ended.
    pub(crate) fn code(&self) -> Option<u8> {
        match self {
            Standing::Unknown | Standing::Starting | Standing::Running => None,
            Standing::Finished => Some(0),
            Standing::Failed { code, .. } => Some(*code),
            // The real exit code is unknown.
            Standing::Killed => Some(1),
        }
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Standing::Unknown => f.write_str("the log has no job status"),
            Standing::Starting => f.write_str("starting"),
            Standing::Running => f.write_str("running"),
            Standing::Finished => f.write_str("finished, exit code 0"),
            Standing::Failed { code, message } if message.is_empty() => {
                write!(f, "failed, exit code {code}")
            }
            Standing::Failed { code, message } => write!(f, "failed, exit code {code}: {message}"),
            Standing::Killed => f.write_str("killed: rank 0 has died without a final status"),
        }
    }
}

/// Returns true if a process of the job is alive, and `None` if the job runs on another host or in another PID namespace.
pub(crate) fn alive_here(status: &JobStatus, process: u32) -> Option<bool> {
    (!status.place.is_empty() && status.place == place()).then(|| is_alive(process))
}

/// Returns the job status in the directory of the newest attempt's events, if there is one.
pub(crate) fn beside(directory: &Path) -> Result<Option<JobStatus>, LaunchError> {
    JobStatus::read(&newest_attempt(directory).join(BESIDE_EVENTS)).map_err(LaunchError::JobStatus)
}

/// Record of the exit code in the job status of a job that logs its events.
#[derive(Debug)]
pub(crate) struct StatusKeeper {
    directory: PathBuf,
    before: Option<JobStatus>,
}

impl StatusKeeper {
    /// Prepares the record before the job starts. `None` if the job does not log events.
    pub(crate) fn expect(events: Option<OsString>) -> Option<Self> {
        let directory = PathBuf::from(events.filter(|name| !name.is_empty())?);
        let before = beside(&directory).ok().flatten();
        Some(StatusKeeper { directory, before })
    }

    /// Prepares the record for the log directory in this process's environment.
    pub(crate) fn of_environment() -> Option<Self> {
        StatusKeeper::expect(std::env::var_os(EVENTS))
    }

    /// Records the exit code of the job. A status `Finished` stays if the code is 0, and the message of a failed job stays. A status that
    /// has not changed since before the start belongs to an earlier job and is not modified.
    pub(crate) fn leave(self, code: u8) {
        let Ok(Some(mut status)) = beside(&self.directory) else { return };
        let is_of_another = self.before.is_some_and(|before| before == status);
        if is_of_another || (status.state == State::Finished && code == 0) {
            return;
        }
        if status.state != State::Failed {
            status.message = match status.state {
                State::Finished => "the program has failed after its ranks had finished".into(),
                _ => "the program has ended without a final status".to_string(),
            };
        }
        // A job without a status `Finished` has not succeeded.
        (status.state, status.code) = (State::Failed, code.max(1));
        let _ = status.write(&newest_attempt(&self.directory).join(BESIDE_EVENTS));
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
        let of = |state, starter, lives| Standing::of(Some(&status(state, starter)), only(lives));
        assert_eq!(of(State::Running, 0, 10), Standing::Running);
        assert_eq!(of(State::Running, 0, 99), Standing::Killed);
        assert_eq!(of(State::Starting, 0, 99), Standing::Killed);
        // The process that started the job will record the exit code, or restart the job.
        assert_eq!(of(State::Running, 20, 20), Standing::Running);
        assert_eq!(of(State::Running, 20, 99), Standing::Killed);
        assert_eq!(of(State::Finished, 0, 99), Standing::Finished);
        // From another host, the processes of the job cannot be observed.
        assert_eq!(Standing::of(Some(&status(State::Running, 0)), |_, _| None), Standing::Running);
        assert_eq!(Standing::of(None, |_, _| Some(false)), Standing::Unknown);
    }

    #[test]
    fn exit_code_is_stored_with_the_events_of_the_same_job_only() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(BESIDE_EVENTS);
        let expect = || StatusKeeper::expect(Some(dir.path().into())).unwrap();
        let leave = |state, code| {
            let keeper = expect();
            status(state, 7).write(&file).unwrap();
            keeper.leave(code);
            let said = Standing::of(beside(dir.path()).unwrap().as_ref(), |_, _| Some(true));
            std::fs::remove_file(&file).unwrap();
            said
        };
        assert_eq!(leave(State::Finished, 0), Standing::Finished);
        assert_eq!(leave(State::Running, 137).code(), Some(137));
        assert_eq!(leave(State::Running, 0).code(), Some(1));
        assert_eq!(leave(State::Failed, 3).code(), Some(3));
        assert_eq!(leave(State::Finished, 9).code(), Some(9));
        assert!(leave(State::Finished, 9).to_string().contains("after its ranks had finished"));
        // The job has not written a status, so that the status of an earlier job is kept.
        status(State::Running, 0).write(&file).unwrap();
        expect().leave(127);
        assert_eq!(beside(dir.path()).unwrap(), Some(status(State::Running, 0)));
        assert!(StatusKeeper::expect(None).is_none() && StatusKeeper::expect(Some("".into())).is_none());
    }
}

//! How a job stands, by what it has left beside its events.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use armature::job_status::{BESIDE_EVENTS, JobStatus, State, place};
use armature::observe::newest_attempt;

use crate::error::LaunchError;
use crate::supervise::is_alive;

/// Where programs are told to log their events.
const EVENTS: &str = "ARMATURE_EVENTS";

/// How a job stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// Its log does not say.
    Unknown,
    /// Its ranks are starting.
    Starting,
    /// It goes on, as far as can be told from here.
    Running,
    /// It has done what it was to do.
    Finished,
    /// It is over and has not.
    Failed {
        /// What it exits with.
        code: u8,
        /// Why, if it says so.
        message: String,
    },
    /// Rank 0 is gone without a word, and so is whoever started the job.
    Killed,
}

impl Standing {
    /// By its job status; `alive` says whether there is a process of this number in the job's place, `None` if that is not here.
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
            State::Running => Standing::Running,
        }
    }

    /// The exit code of the job, once it is over.
    pub(crate) fn code(&self) -> Option<u8> {
        match self {
            Standing::Unknown | Standing::Starting | Standing::Running => None,
            Standing::Finished => Some(0),
            Standing::Failed { code, .. } => Some(*code),
            // Nobody is left who could tell.
            Standing::Killed => Some(1),
        }
    }
}

impl std::fmt::Display for Standing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Standing::Unknown => f.write_str("its log does not say how it stands"),
            Standing::Starting => f.write_str("starting"),
            Standing::Running => f.write_str("running"),
            Standing::Finished => f.write_str("finished, exit code 0"),
            Standing::Failed { code, message } if message.is_empty() => {
                write!(f, "failed, exit code {code}")
            }
            Standing::Failed { code, message } => write!(f, "failed, exit code {code}: {message}"),
            Standing::Killed => f.write_str("killed: rank 0 is gone and has left no word"),
        }
    }
}

/// Whether a process of the job lives, if it would be here.
pub(crate) fn alive_here(status: &JobStatus, process: u32) -> Option<bool> {
    (!status.place.is_empty() && status.place == place()).then(|| is_alive(process))
}

/// The job status beside the events of the newest attempt in `directory`, if there is one.
pub(crate) fn beside(directory: &Path) -> Result<Option<JobStatus>, LaunchError> {
    JobStatus::read(&newest_attempt(directory).join(BESIDE_EVENTS)).map_err(LaunchError::JobStatus)
}

/// A job that is being started, for whose log the exit code is to be kept.
#[derive(Debug)]
pub(crate) struct StatusKeeper {
    directory: PathBuf,
    before: Option<JobStatus>,
}

impl StatusKeeper {
    /// Before the job starts. `None` if it is not told to log its events.
    pub(crate) fn expect(events: Option<OsString>) -> Option<Self> {
        let directory = PathBuf::from(events.filter(|name| !name.is_empty())?);
        let before = beside(&directory).ok().flatten();
        Some(StatusKeeper { directory, before })
    }

    /// As the environment says.
    pub(crate) fn of_environment() -> Option<Self> {
        StatusKeeper::expect(std::env::var_os(EVENTS))
    }

    /// The job has ended with this code. What it has said itself stays, if that fits.
    pub(crate) fn leave(self, code: u8) {
        let Ok(Some(mut status)) = beside(&self.directory) else { return };
        let is_of_another = self.before.is_some_and(|before| before == status);
        if is_of_another || (status.state == State::Finished && code == 0) {
            return;
        }
        if status.state != State::Failed {
            status.message = match status.state {
                State::Finished => "the program has ended otherwise after its ranks had finished".into(),
                _ => "it has ended without a word of its own".to_string(),
            };
        }
        // A job that has not said that it is done is none that has succeeded.
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
    fn a_job_is_killed_when_nobody_is_left_who_could_say_more() {
        let only = |lives: u32| move |_: &JobStatus, process: u32| Some(process == lives);
        let of = |state, starter, lives| Standing::of(Some(&status(state, starter)), only(lives));
        assert_eq!(of(State::Running, 0, 10), Standing::Running);
        assert_eq!(of(State::Running, 0, 99), Standing::Killed);
        assert_eq!(of(State::Starting, 0, 99), Standing::Killed);
        // Who has started it says what came of it, or starts it again.
        assert_eq!(of(State::Running, 20, 20), Standing::Running);
        assert_eq!(of(State::Running, 20, 99), Standing::Killed);
        assert_eq!(of(State::Finished, 0, 99), Standing::Finished);
        // From another host that is not seen.
        assert_eq!(Standing::of(Some(&status(State::Running, 0)), |_, _| None), Standing::Running);
        assert_eq!(Standing::of(None, |_, _| Some(false)), Standing::Unknown);
    }

    #[test]
    fn the_exit_code_is_kept_beside_the_events_unless_they_are_of_another_job() {
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
        // The job has not come so far as to say anything.
        status(State::Running, 0).write(&file).unwrap();
        expect().leave(127);
        assert_eq!(beside(dir.path()).unwrap(), Some(status(State::Running, 0)));
        assert!(StatusKeeper::expect(None).is_none() && StatusKeeper::expect(Some("".into())).is_none());
    }
}

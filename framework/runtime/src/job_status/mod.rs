//! Job status: state and result of a job, in a file for the program that started the job.
//!
//! The exit code of a launcher is not always reliable. If ranks are allowed to die (`mpirun --enable-recovery`, `srun`), `mpirun` exits with 0
//! whichever rank has died, and `srun` with 137 although the surviving ranks have finished. Therefore a program that is started with
//! `ARMATURE_JOB_STATUS=FILE` writes its state into that file; `armature run` reads it.
//!
//! A job that logs its events also writes its status to `job-status.json` in the directory of the events.
//!
//! The file holds one JSON object and is replaced as a whole, so that a reader never finds a partial one. A job without a job status, or
//! with the status `running`, has not succeeded. If the path is a symbolic link, its target is replaced. A device is written directly. A
//! FIFO is refused, because the job would have to wait for a reader.

mod attempt;
pub(crate) mod writer;

use std::fs;
use std::io;
use std::path::Path;

use armature_files::lock::{LockFile, TRIES};
use armature_files::{output, regular};
use serde::{Deserialize, Serialize};

pub use crate::error::STOPPED;
use crate::error::{Error, ErrorKind, Result};

pub use attempt::newest_attempt;
pub(crate) use attempt::{Attempt, attempt_directory, file_of_rank, join_attempt};

/// Maximum size of a job status in bytes. Most job statuses have some hundred bytes; the status of a failed job includes the whole error
/// message.
const LONGEST: u64 = 4 << 20;

/// Word in the file `stop` of a [run directory](crate::Config::run_directory) that asks the job to stop at its next checkpoint or snapshot, when
/// that is due. Without this word, the job writes a checkpoint and stops at once.
pub const AFTER_CHECKPOINT: &str = "--after-checkpoint";

/// Content of a job status file: state and result of a job.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct JobStatus {
    /// State of the job at the time of writing.
    pub state: State,
    /// Recommended exit code of the job: 0 only if it has finished, [`STOPPED`] if it was stopped.
    pub code: u8,
    /// Error message, which names the failed rank; empty unless the job has failed.
    pub message: String,
    /// Sentence with the cause of the stop and the results that are kept; empty unless the job was stopped.
    pub kept: String,
    /// True if the same job may succeed when it is restarted; false if the program itself failed.
    pub restart: bool,
    /// Number of ranks at the start.
    pub ranks: usize,
    /// Ranks that have died and that the job does not need, ascending.
    pub lost: Vec<usize>,
    /// Number of completed tasks, items, loop units (rows or indices) or sweeps, in all farms, pipelines, loops and workflows of the session. Those
    /// that an earlier run has recorded in a journal, a rescue file or a checkpoint are included.
    pub done: u64,
    /// Process ID of rank 0.
    pub process: u32,
    /// Scope in which the process ID `process` is unique: a machine since its last boot, and a PID namespace on the machine. Empty if unknown.
    pub place: String,
    /// Number of restarts of the job.
    pub restarts: u32,
    /// ID, in the scope `place`, of the process that started the job and will write the result of the job to this file; 0 if there is no such
    /// process.
    pub starter: u32,
    /// Identity of the launcher that watches this file, as in `process 8170 on node03 (6f1d…)`; empty if there is none. A launcher ignores
    /// a job status with another identity, because it belongs to another job.
    pub started_by: String,
}

/// Lock of the file of a job status, see [`JobStatus::claim`].
#[derive(Debug)]
pub struct StatusLock {
    _lock: Option<LockFile>,
}

/// File name of the copy of the job status in the directory of the event logs.
pub const EVENTS_COPY: &str = "job-status.json";

/// Text that names the time limit as the cause of a stop, after "stopped by".
pub(crate) const TIME_LIMIT: &str = "the time limit of the job";

/// State of a job: one of the states before its end, or the way in which it has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
#[non_exhaustive]
pub enum State {
    /// The job has started, but not all ranks have registered with rank 0 yet.
    #[default]
    Starting,
    /// All ranks have started, and the job has not ended.
    Running,
    /// The job has ended without an error.
    Finished,
    /// The job has ended with an error.
    Failed,
    /// The job was asked to stop, by a signal for example, and has ended in order. The same command continues the work of the job.
    Stopped,
}

impl State {
    /// Returns true if the job has ended.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Finished | State::Failed | State::Stopped)
    }
}

impl JobStatus {
    /// Returns true if the job has stopped by itself, because no task could end before the [end of the job](crate::Config::end_time).
    pub fn stopped_for_time_limit(&self) -> bool {
        self.was_stopped_by(TIME_LIMIT)
    }

    /// Returns true if the job has stopped after a signal SIGTERM. A user or a batch system sends it, and also a launcher that ends the other ranks
    /// after the death of a rank.
    pub fn stopped_by_sigterm(&self) -> bool {
        self.was_stopped_by("SIGTERM")
    }

    fn was_stopped_by(&self, cause: &str) -> bool {
        self.state == State::Stopped
            && self.kept.strip_prefix("stopped by ").is_some_and(|text| text.starts_with(cause))
    }

    /// Reads the job status from a file; `None` if there is no file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be read, [`ErrorKind::Config`] if it does not contain a job status.
    pub fn read(path: &Path) -> Result<Option<JobStatus>> {
        let name = path.display();
        let bytes = match regular::read_at_most(path, LONGEST) {
            Ok(bytes) => bytes,
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                return Err(Error::new(ErrorKind::Config, format!("{name} does not hold a job status: {e}")));
            }
            Err(e) => {
                return Err(Error::new(ErrorKind::Io, format!("cannot read the job status {name}: {e}")));
            }
        };
        serde_json::from_slice(&bytes).map(Some).map_err(|e| {
            let why = armature_text::shown(&e.to_string());
            Error::new(ErrorKind::Config, format!("{name} does not hold a job status: {why}"))
        })
    }

    /// Locks the job status in a file for one job, until the returned value is dropped. The lock is held on the file `PATH.lock`. A path that is
    /// not a regular file, such as a device, is not locked.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if another job holds the lock for ten seconds; [`ErrorKind::Io`] if the lock file cannot be created.
    pub fn claim(path: &Path) -> Result<StatusLock> {
        JobStatus::claim_within(path, TRIES)
    }

    fn claim_within(path: &Path, tries: u32) -> Result<StatusLock> {
        // Symbolic links in the path are resolved first, so that two links to the same status file use the same lock.
        let at = fs::canonicalize(path).unwrap_or_else(|_| path.to_path_buf());
        if at.exists() && !at.is_file() {
            return Ok(StatusLock { _lock: None });
        }
        let mut name = at.into_os_string();
        name.push(".lock");
        let shown = path.display();
        let waiting =
            |holder: &str| log::info!("the job status {shown} is in use by {holder}; waiting for its lock");
        let lock =
            LockFile::acquire(Path::new(&name), tries, waiting).map_err(|error| match error.kind() {
                io::ErrorKind::ResourceBusy => Error::new(
                    ErrorKind::Config,
                    format!("the job status {shown}: {error}. Each job needs a separate file"),
                ),
                _ => Error::new(ErrorKind::Io, format!("cannot lock the job status {shown}: {error}")),
            })?;
        Ok(StatusLock { _lock: Some(lock) })
    }

    /// Writes the job status to a file, which is replaced as a whole.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] if the file cannot be written; the file is unchanged then.
    pub fn write(&self, path: &Path) -> Result<()> {
        let write = || {
            let mut text = serde_json::to_vec(self)?;
            text.push(b'\n');
            output::publish(path, &text)
        };
        write().map_err(|e: io::Error| {
            Error::new(ErrorKind::Io, format!("cannot write the job status {}: {e}", path.display()))
        })
    }
}

/// Returns the scope in which the process IDs that this process sees are unique: this machine since its last boot, and the PID namespace of this
/// process. Empty if unknown. See [`JobStatus::place`].
pub fn place() -> String {
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id");
    let namespace = fs::read_link("/proc/self/ns/pid");
    match (boot, namespace) {
        (Ok(boot), Ok(namespace)) => format!("{} {}", boot.trim(), namespace.display()),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn job_status_round_trips_without_leftover_files() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status");
        assert_eq!(JobStatus::read(&path).unwrap(), None);
        let job_status =
            JobStatus { state: State::Failed, message: "rank 1: \"no\"".into(), ..JobStatus::default() };
        JobStatus::default().write(&path).unwrap();
        job_status.write(&path).unwrap();
        assert_eq!(JobStatus::read(&path).unwrap(), Some(job_status));
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[test]
    fn job_status_file_is_used_by_one_job_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status");
        let lock = JobStatus::claim(&path).unwrap();
        JobStatus::default().write(&path).unwrap();
        std::os::unix::fs::symlink("status", dir.path().join("link")).unwrap();
        for name in ["status", "link"] {
            let error = JobStatus::claim_within(&dir.path().join(name), 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Config);
            let text = error.to_string();
            assert!(
                text.contains("process uses it") && text.ends_with("Each job needs a separate file"),
                "{text}"
            );
        }
        drop(lock);
        JobStatus::claim_within(&path, 1).unwrap();
        JobStatus::claim_within(Path::new("/dev/null"), 1).unwrap();
    }

    #[test]
    fn devices_and_links_are_kept_and_fifos_refused() {
        let dir = tempfile::tempdir().unwrap();
        let (link, fifo) = (dir.path().join("link"), dir.path().join("fifo"));
        std::os::unix::fs::symlink("status", &link).unwrap();
        JobStatus::default().write(&link).unwrap();
        assert!(link.is_symlink());
        assert_eq!(JobStatus::read(&dir.path().join("status")).unwrap(), Some(JobStatus::default()));
        JobStatus::default().write(Path::new("/dev/null")).unwrap();
        assert!(!Path::new("/dev/null").is_file());
        assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
        let refused = [JobStatus::default().write(&fifo).unwrap_err(), JobStatus::read(&fifo).unwrap_err()];
        for error in refused {
            assert!(error.to_string().contains("is a FIFO, expected a regular file"), "{error}");
        }
    }

    #[test]
    fn unreadable_and_unwritable_files_are_named() {
        let error = JobStatus::default().write(Path::new("/no/such/place")).unwrap_err().to_string();
        assert!(error.starts_with("cannot write the job status /no/such/place: "), "{error}");
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("status");
        fs::write(&path, "{\"state\":\"fini").unwrap();
        let error = JobStatus::read(&path).unwrap_err().to_string();
        assert!(error.contains("status does not hold a job status: "), "{error}");
        fs::File::create(&path).unwrap().set_len(1 << 36).unwrap();
        let error = JobStatus::read(&path).unwrap_err().to_string();
        assert!(error.contains("status does not hold a job status: it has more than"), "{error}");
    }
}

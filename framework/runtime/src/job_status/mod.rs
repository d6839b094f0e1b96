//! Job status: what came of a job, in a file, for whoever started it.
//!
//! A launcher's exit code does not always tell. Where ranks are allowed to die (`mpirun --enable-recovery`, `srun`), one exits with 0
//! whatever has died, the other with 137 although the survivors have finished. A program that is started with
//! `ARMATURE_JOB_STATUS=FILE` therefore writes into that file how it stands; `armature run` reads it.
//!
//! A job that logs its events says the same beside them, in `job-status.json`.
//!
//! The file holds one object of JSON and is replaced as a whole, so that a reader never finds half of it. A job that has
//! left no job status, or one that says `running`, has not succeeded. Of a symbolic link, what it leads to is replaced; a device is
//! written to as it is, and a FIFO is refused, since the job would have to wait for a reader.

mod attempt;
pub(crate) mod writer;

use std::fs;
use std::io;
use std::path::Path;

use armature_files::lock::{LockFile, TRIES};
use armature_files::{output, regular};
use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

pub use attempt::newest_attempt;
pub(crate) use attempt::{Attempt, attempt_directory, file_of_rank, join_attempt};

/// No job status is longer than this, in bytes; most have some hundreds, those of failed jobs the whole message.
const LONGEST: u64 = 4 << 20;

/// How a job stands.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct JobStatus {
    /// Whether it runs or has ended.
    pub state: State,
    /// What the job should exit with: 0 only if it has finished.
    pub code: u8,
    /// Why it failed, naming the rank; empty unless it has.
    pub message: String,
    /// Whether the same job may succeed if it is started again: not where the program itself failed.
    pub restart: bool,
    /// How many ranks it was started with.
    pub ranks: usize,
    /// Ranks that have died and without which it goes on, ascending.
    pub lost: Vec<usize>,
    /// Number of completed tasks, items, units or sweeps, over all skeletons of the session. It includes those that an earlier run
    /// has left in a journal, a rescue file or a checkpoint.
    pub done: u64,
    /// The process number of rank 0.
    pub process: u32,
    /// Where that number means something: a machine since its last start, and a namespace of process numbers on it.
    /// Empty if that is not known.
    pub place: String,
    /// How often the job has been started again.
    pub restarts: u32,
    /// The process number of who started the job and will say here how it ended, in the same place; 0 if there is nobody.
    pub starter: u32,
    /// Identity of the launcher that watches this file, as in `process 8170 on node03 (6f1d…)`; empty if there is none. A launcher ignores a
    /// job status with another identity: it belongs to another job.
    pub started_by: String,
}

/// Lock of a job status, see [`JobStatus::claim`].
#[derive(Debug)]
pub struct StatusLock {
    _lock: Option<LockFile>,
}

/// The name of the file beside a log of events that says how its job stands.
pub const BESIDE_EVENTS: &str = "job-status.json";

/// Whether a job runs or has ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Not all ranks have started and found each other yet.
    #[default]
    Starting,
    /// They have, and the job has not ended.
    Running,
    /// It is over and has done what it was to do.
    Finished,
    /// It is over and has not.
    Failed,
}

impl State {
    /// Whether it is over.
    pub fn has_ended(self) -> bool {
        matches!(self, State::Finished | State::Failed)
    }
}

impl JobStatus {
    /// The job status in a file; `None` where there is no file.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when the file cannot be read, [`ErrorKind::Config`] when it does not hold a job status.
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

    /// Locks the job status in a file for one job, until the returned value is dropped. The lock is that of the file `PATH.lock`. What
    /// is no regular file, such as a device, is not locked.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if another job holds the lock for ten seconds; [`ErrorKind::Io`] if the lock file cannot be made.
    pub fn claim(path: &Path) -> Result<StatusLock> {
        JobStatus::claim_within(path, TRIES)
    }

    fn claim_within(path: &Path, tries: u32) -> Result<StatusLock> {
        // Of two links to one file, both lead to the same lock.
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
                    format!("the job status {shown}: {error}. Each job needs a file of its own"),
                ),
                _ => Error::new(ErrorKind::Io, format!("cannot lock the job status {shown}: {error}")),
            })?;
        Ok(StatusLock { _lock: Some(lock) })
    }

    /// Writes it to a file, which is replaced as a whole.
    ///
    /// # Errors
    /// [`ErrorKind::Io`] when that is not possible. The file is as it was then.
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

/// Where the numbers of this process and its neighbours mean something, see [`JobStatus::place`].
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
    fn a_job_status_survives_and_leaves_nothing_else_behind() {
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
    fn one_job_at_a_time_has_a_job_status() {
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
                text.contains("process uses it") && text.ends_with("Each job needs a file of its own"),
                "{text}"
            );
        }
        drop(lock);
        JobStatus::claim_within(&path, 1).unwrap();
        JobStatus::claim_within(Path::new("/dev/null"), 1).unwrap();
    }

    #[test]
    fn neither_a_device_is_replaced_nor_a_link_and_a_fifo_is_not_waited_for() {
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
    fn what_cannot_be_read_or_written_is_named() {
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

//! Directories of events, one for each start of a job: `DIR/attempts/1`, `DIR/attempts/2`, …
//!
//! Rank 0 reserves the number of an attempt (start of the job) by creating its directory, so that a restart, a requeue and a second start by
//! hand never write to the same files. Readers that are given `DIR` read the newest attempt.

use std::fs::{self, OpenOptions};
use std::io::{Error as IoError, ErrorKind as IoKind};
use std::path::{Path, PathBuf};

use armature_files::lock::{LockFile, TRIES};
use armature_files::regular::{Links, open_with};

use crate::error::{Error, ErrorKind, Result};

const ATTEMPTS: &str = "attempts";

const LOCK: &str = "lock";

/// Returns the directory of the newest attempt (start of a job) in the directory `dir` of the event logs, and `dir` itself if it contains no
/// attempts, for example because it is the directory of one attempt.
///
/// ```
/// use armature::observe::newest_attempt;
///
/// let dir = tempfile::tempdir()?;
/// assert_eq!(newest_attempt(dir.path()), dir.path());
/// for number in [1, 2, 10] {
///     std::fs::create_dir_all(dir.path().join(format!("attempts/{number}")))?;
/// }
/// let newest = newest_attempt(dir.path());
/// assert_eq!(newest, dir.path().join("attempts/10"));
/// assert_eq!(newest_attempt(&newest), newest);
/// # Ok::<(), std::io::Error>(())
/// ```
pub fn newest_attempt(dir: &Path) -> PathBuf {
    match newest_number(dir) {
        0 => dir.to_path_buf(),
        number => attempt_directory(dir, number),
    }
}

/// Returns the directory of attempt `number` in `dir`. If `dir` is the directory that `armature run` has created for this attempt, `dir` itself
/// is returned.
pub(crate) fn attempt_directory(dir: &Path, number: u32) -> PathBuf {
    let directory = Path::new(ATTEMPTS).join(number.to_string());
    if dir.ends_with(&directory) { dir.to_path_buf() } else { dir.join(directory) }
}

/// Returns the number of the attempt to which `dir` belongs; 0 if `dir` is not the directory of one attempt (start of the job).
fn own_number(dir: &Path) -> u32 {
    let number = || dir.file_name()?.to_str()?.parse().ok();
    number().filter(|number| dir.is_dir() && attempt_directory(dir, *number) == dir).unwrap_or(0)
}

/// Returns the name of a file with events of one rank, for example `rank-3.jsonl` for the stem `rank` and rank 3.
pub(crate) fn file_of_rank(stem: &str, rank: usize) -> String {
    format!("{stem}-{rank}.jsonl")
}

/// Returns the highest number of an attempt (start of the job) in `dir`; 0 if `dir` contains no attempts.
fn newest_number(dir: &Path) -> u32 {
    let number = |entry: fs::DirEntry| {
        let name = entry.file_name();
        let number: u32 = name.to_str()?.parse().ok()?;
        (number.to_string().as_str() == name && entry.path().is_dir()).then_some(number)
    };
    fs::read_dir(dir.join(ATTEMPTS)).into_iter().flatten().flatten().filter_map(number).max().unwrap_or(0)
}

/// The attempt (start of the job) to which this job writes its events. Until the value is dropped, the directory of the event logs is locked.
#[derive(Debug)]
pub(crate) struct Attempt {
    number: u32,
    directory: PathBuf,
    _lock: LockFile,
}

impl Attempt {
    /// Creates the directory of the next attempt (start of the job) in the directory `dir` of the event logs, which is created if it does not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if another job holds the lock of `dir` for ten seconds; [`ErrorKind::Io`] if the directory is not writable.
    pub(crate) fn take(dir: &Path) -> Result<Attempt> {
        Attempt::take_within(dir, TRIES)
    }

    fn take_within(dir: &Path, tries: u32) -> Result<Attempt> {
        let wrong = |error: IoError| match error.kind() {
            IoKind::ResourceBusy => {
                let dir = dir.display();
                let text =
                    format!("the directory of events {dir}: {error}. Each job needs a separate directory");
                Error::new(ErrorKind::Config, text)
            }
            _ => unwritable(dir, &error),
        };
        fs::create_dir_all(dir).map_err(wrong)?;
        let waiting = |holder: &str| {
            log::info!(
                "the directory of events {} is in use by {holder}; waiting for its lock",
                dir.display()
            );
        };
        let lock = LockFile::acquire(&dir.join(LOCK), tries, waiting).map_err(wrong)?;
        let own = own_number(dir);
        if own > 0 && !dir.join(file_of_rank("rank", 0)).exists() {
            return Ok(Attempt { number: own, directory: dir.to_path_buf(), _lock: lock });
        }
        fs::create_dir_all(dir.join(ATTEMPTS)).map_err(wrong)?;
        // The number of the attempt must exceed that of `dir`, if `dir` is the directory of an attempt: with an equal number, `attempt_directory`
        // would return `dir` itself.
        let mut number = newest_number(dir).max(own) + 1;
        loop {
            let directory = attempt_directory(dir, number);
            match fs::create_dir(&directory) {
                Ok(()) => return Ok(Attempt { number, directory, _lock: lock }),
                // The name of the directory is taken: by a file, or by the directory of a job on another host, if the file system does not share
                // locks between hosts. The next number is tried.
                Err(error) if error.kind() == IoKind::AlreadyExists => number += 1,
                Err(error) => return Err(wrong(error)),
            }
        }
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }
}

/// Checks on a rank other than 0 that it can write its events to attempt `number` in `dir`. If the hosts share no file system, the
/// directory is created. Returns the directory.
///
/// # Errors
/// [`ErrorKind::Io`] if the rank cannot create its file, or if the file exists because an earlier job has created it.
pub(crate) fn join_attempt(dir: &Path, number: u32, rank: usize) -> Result<PathBuf> {
    let directory = attempt_directory(dir, number);
    fs::create_dir_all(&directory).map_err(|error| unwritable(&directory, &error))?;
    let path = directory.join(file_of_rank("rank", rank));
    open_with(&path, OpenOptions::new().write(true).create_new(true), Links::Refused)
        .and_then(|_| fs::remove_file(&path))
        .map_err(|error| unwritable(&path, &error))?;
    Ok(directory)
}

fn unwritable(path: &Path, error: &IoError) -> Error {
    let text = format!(
        "no events can be written to {}: {error}. Expected a directory for ARMATURE_EVENTS in which this rank can \
         create files, without files of an earlier job",
        path.display()
    );
    Error::new(ErrorKind::Io, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_attempt_has_a_directory_and_jobs_exclude_each_other() {
        let dir = tempfile::tempdir().unwrap();
        let events = dir.path().join("deep/events");
        let first = Attempt::take(&events).unwrap();
        assert_eq!((first.number(), first.directory()), (1, events.join("attempts/1").as_path()));
        let error = Attempt::take_within(&events, 1).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Config);
        let text = error.to_string();
        assert!(
            text.contains("deep/events: ") && text.contains("process uses it and has not released"),
            "{text}"
        );
        assert!(text.ends_with("Each job needs a separate directory"), "{text}");
        assert!(!events.join("attempts/2").exists());
        drop(first);
        // If `armature run` has created the directory of the attempt, the first session writes to it, and a second session to a new directory.
        let third = events.join("attempts/3");
        fs::create_dir(&third).unwrap();
        let launched = Attempt::take(&third).unwrap();
        assert_eq!((launched.number(), launched.directory()), (3, third.as_path()));
        assert_eq!(join_attempt(&third, 3, 1).unwrap(), third);
        drop(launched);
        fs::write(third.join("rank-0.jsonl"), "").unwrap();
        let second = Attempt::take(&third).unwrap();
        assert_eq!((second.number(), second.directory()), (4, third.join("attempts/4").as_path()));
        fs::remove_dir_all(&third).unwrap();
        // A file and directories whose names are no attempt numbers do not count as attempts and are not overwritten.
        fs::create_dir(events.join("attempts/007")).unwrap();
        fs::write(events.join("attempts/2"), "mine").unwrap();
        let third = Attempt::take(&events).unwrap();
        assert_eq!((third.number(), newest_attempt(&events)), (3, events.join("attempts/3")));
        assert_eq!(fs::read_to_string(events.join("attempts/2")).unwrap(), "mine");
    }

    #[test]
    fn unwritable_event_directory_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let error = Attempt::take(&file).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().starts_with("no events can be written to "), "{error}");
        assert!(join_attempt(&file, 1, 1).is_err());
        // A rank on a host that does not share the directory with rank 0 must not overwrite files of an earlier job.
        let directory = join_attempt(dir.path(), 4, 1).unwrap();
        assert!(fs::read_dir(&directory).unwrap().next().is_none());
        fs::write(directory.join("rank-1.jsonl"), "earlier").unwrap();
        let error = join_attempt(dir.path(), 4, 1).unwrap_err().to_string();
        assert!(error.contains("attempts/4/rank-1.jsonl: ") && error.contains("earlier job"), "{error}");
        assert_eq!(fs::read_to_string(directory.join("rank-1.jsonl")).unwrap(), "earlier");
    }
}

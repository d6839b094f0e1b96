//! Run directories: `armature-runs/NAME-N`, the record of a run and of its attempts.
//!
//! | file | content |
//! |---|---|
//! | `run.json` | command, host, version, batch job, environment: [`description`] |
//! | `job.sh` | job script of `armature submit` |
//! | `log` | output of all attempts, each with a heading: [`log`] |
//! | `attempts/K/` | events, job status, `start.json` and `why.json` of attempt K: [`attempt`] |
//! | `lock` | lock of the process that runs an attempt |
//! | `stop` | exists if `armature stop` has asked the run to stop |
//!
//! The numbers of runs and attempts are reserved by creating their directories. A requeue, a restart and a second start by hand therefore
//! never get the same number.

pub(crate) mod attempt;
pub(crate) mod description;
pub(crate) mod end_reason;
pub(crate) mod log;
pub(crate) mod name;
pub(crate) mod recorder;
pub(crate) mod reference;
mod request;
pub(crate) mod state;

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use crate::error::LaunchError;
use description::Description;

pub(crate) const RUNS: &str = "armature-runs";
pub(crate) const SCRIPT: &str = "job.sh";
pub(crate) const LAST: &str = "last";
pub(crate) const ATTEMPTS: &str = "attempts";
/// Name of the file that asks the run to stop.
const STOP: &str = "stop";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Reserves the next number for runs with this name, and makes the link `last` point to the new run directory.
    pub(crate) fn create(runs: &Path, name: &str) -> Result<Self, LaunchError> {
        let run = RunDirectory::create_unlinked(runs, name)?;
        run.link(runs);
        Ok(run)
    }

    pub(crate) fn create_unlinked(runs: &Path, name: &str) -> Result<Self, LaunchError> {
        let failed = |path: &Path| LaunchError::io(format!("create the run directory {}", path.display()));
        fs::create_dir_all(runs).map_err(failed(runs))?;
        let mut number = newest(runs, name).map_or(1, |(number, _)| number + 1);
        loop {
            let path = runs.join(format!("{name}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => return Ok(RunDirectory { path }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failed(&path)(error)),
            }
        }
    }

    pub(crate) fn at(path: impl Into<PathBuf>) -> Self {
        RunDirectory { path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the name of the run with its number, as in `ferret-3`.
    pub(crate) fn name(&self) -> String {
        // The path may be the link `last` to a run directory.
        let path = fs::canonicalize(&self.path).unwrap_or_else(|_| self.path.clone());
        path.file_name()
            .map_or_else(|| path.display().to_string(), |name| armature_text::line(name.display()))
    }

    pub(crate) fn array(&self) -> Option<Vec<RunDirectory>> {
        let names = Description::read(self)?.elements;
        let path = fs::canonicalize(&self.path).ok()?;
        let beside = |name: String| RunDirectory::at(path.with_file_name(name));
        (!names.is_empty()).then(|| names.into_iter().map(beside).filter(|run| run.path.is_dir()).collect())
    }

    /// Returns the runs of a job array's elements, or this run if it is not a job array.
    pub(crate) fn elements(self) -> Vec<RunDirectory> {
        self.array().unwrap_or_else(|| vec![self])
    }

    pub(crate) fn log(&self) -> PathBuf {
        self.path.join("log")
    }

    pub(crate) fn stop_file(&self) -> PathBuf {
        self.path.join(STOP)
    }

    pub(crate) fn attempts_directory(&self) -> PathBuf {
        self.path.join(ATTEMPTS)
    }

    pub(crate) fn attempts(&self) -> Vec<u32> {
        let number = |entry: fs::DirEntry| {
            let name = entry.file_name();
            let number: u32 = name.to_str()?.parse().ok()?;
            (number.to_string().as_str() == name && entry.path().is_dir()).then_some(number)
        };
        let entries = fs::read_dir(self.attempts_directory()).into_iter().flatten().flatten();
        let mut numbers: Vec<u32> = entries.filter_map(number).collect();
        numbers.sort_unstable();
        numbers
    }

    /// A failure to make the link `last` to the newest run is ignored, because it is only a shortcut. A file or directory `last` of the user is left
    /// alone.
    pub(crate) fn link(&self, runs: &Path) {
        let link = runs.join(LAST);
        if fs::symlink_metadata(&link).is_ok_and(|entry| !entry.is_symlink()) {
            return;
        }
        let Some(name) = self.path.file_name() else { return };
        // The link is created under another name and renamed, so that a reader always finds a link `last`.
        let new = runs.join(format!(".{LAST}-{}", armature_files::fresh()));
        if std::os::unix::fs::symlink(name, &new).and_then(|()| fs::rename(&new, &link)).is_err() {
            let _ = fs::remove_file(&new);
        }
    }
}

/// Returns the runs in the directory `runs`, the newest last.
pub(crate) fn all(runs: &Path) -> Vec<RunDirectory> {
    let entries = fs::read_dir(runs).into_iter().flatten().flatten();
    let is_run = |entry: &fs::DirEntry| {
        let name = entry.file_name();
        entry.file_type().is_ok_and(|kind| kind.is_dir())
            && name.to_str().is_some_and(|name| split(name).is_some())
    };
    let time = |entry: &fs::DirEntry| entry.metadata().and_then(|entry| entry.modified()).ok();
    let mut found: Vec<_> =
        entries.filter(is_run).map(|entry| (created(&entry.path()).or(time(&entry)), entry.path())).collect();
    found.sort();
    found.into_iter().map(|(_, path)| RunDirectory { path }).collect()
}

/// Returns the time at which the run was created. At this time `run.json` was written.
fn created(run: &Path) -> Option<std::time::SystemTime> {
    fs::metadata(run.join(description::FILE)).and_then(|file| file.modified()).ok()
}

/// Splits the name of a run, such as `ferret-3`, into name and number.
fn split(name: &str) -> Option<(&str, u32)> {
    let (name, number) = name.rsplit_once('-')?;
    let parsed: u32 = number.parse().ok()?;
    (!name.is_empty() && parsed > 0 && parsed.to_string() == number).then_some((name, parsed))
}

pub(crate) fn newest(runs: &Path, name: &str) -> Option<(u32, RunDirectory)> {
    let number = |entry: fs::DirEntry| {
        let file = entry.file_name();
        let (of, number) = split(file.to_str()?)?;
        (of == name && entry.path().is_dir()).then(|| (number, RunDirectory::at(entry.path())))
    };
    fs::read_dir(runs).into_iter().flatten().flatten().filter_map(number).max_by_key(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_of_a_name_has_the_next_number_and_last_is_the_newest() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join(RUNS);
        let names = ["a", "b-2", "a"].map(|name| RunDirectory::create(&runs, name).unwrap().name());
        assert_eq!(names, ["a-1", "b-2-1", "a-2"]);
        assert_eq!(RunDirectory::at(runs.join(LAST)).name(), "a-2");
        assert_eq!(newest(&runs, "b-2").unwrap().0, 1);
        assert_eq!(newest(&runs, "b"), None);
        // The user has a file with the name of the next run, which must not be overwritten.
        fs::write(runs.join("a-3"), "mine").unwrap();
        assert_eq!(RunDirectory::create(&runs, "a").unwrap().name(), "a-4");
        assert_eq!(fs::read_to_string(runs.join("a-3")).unwrap(), "mine");
        assert_eq!(all(&runs).len(), 4);
    }

    #[test]
    fn directory_named_last_is_not_replaced() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join(LAST)).unwrap();
        RunDirectory::create(dir.path(), "a").unwrap();
        assert!(dir.path().join(LAST).is_dir() && !dir.path().join(LAST).is_symlink());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 2);
    }

    #[test]
    fn numbers_at_the_end_of_a_name_are_split_off() {
        assert_eq!(split("a-b-12"), Some(("a-b", 12)));
        for name in ["a", "a-", "a-01", "-1", "a-0", "last", "a-4294967296"] {
            assert_eq!(split(name), None, "{name}");
        }
    }
}

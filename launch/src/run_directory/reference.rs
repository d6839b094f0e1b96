//! Finds the run that a user names on the command line as `RUN` or `RUN@K`: a directory, `last`, a name, or the number of a batch job.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use super::attempt::Attempt;
use super::description::Description;
use super::{LAST, RUNS, RunDirectory, all, newest};
use crate::error::LaunchError;

/// Run that the user has named on the command line, with the attempt (start of the program) if the name has the form `RUN@K`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Reference {
    pub(crate) run: RunDirectory,
    pub(crate) attempt: Option<u32>,
}

impl Reference {
    /// Finds the run that the user has named. A directory takes precedence over the name of a run.
    pub(crate) fn find(text: &OsStr) -> Result<Self, LaunchError> {
        Reference::find_in(Path::new(RUNS), text)
    }

    /// Finds a run that `armature run` or `armature submit` has recorded; `None` means the newest one.
    pub(crate) fn recorded(text: Option<&OsStr>) -> Result<Self, LaunchError> {
        let text = text.unwrap_or(OsStr::new(LAST));
        let found = Reference::find(text)?;
        let is_recorded = Description::read(&found.run).is_some() || found.run.attempts_directory().is_dir();
        if is_recorded { Ok(found) } else { Err(unknown(text)) }
    }

    fn find_in(runs: &Path, text: &OsStr) -> Result<Self, LaunchError> {
        if let Some(path) = directory(runs, text) {
            return Ok(Reference { run: RunDirectory::at(path), attempt: None });
        }
        let lossy = text.to_string_lossy();
        let (name, number) = lossy.rsplit_once('@').ok_or_else(|| unknown(text))?;
        let number: u32 = number.parse().ok().filter(|&number| number > 0).ok_or_else(|| unknown(text))?;
        let run = RunDirectory::at(directory(runs, OsStr::new(name)).ok_or_else(|| unknown(text))?);
        let known = run.attempts();
        if !known.contains(&number) {
            return Err(LaunchError::NoAttempt { run: run.name(), number, newest: known.last().copied() });
        }
        Ok(Reference { run, attempt: Some(number) })
    }

    pub(crate) fn directory(&self) -> PathBuf {
        match self.attempt {
            Some(number) => Attempt::of(&self.run, number).directory().to_path_buf(),
            None => self.run.path().to_path_buf(),
        }
    }
}

/// Returns the directory with a run's events: its subdirectory `events` if that exists, otherwise the directory of the run.
pub(crate) fn events(run: &Path) -> Result<PathBuf, LaunchError> {
    let directory = Reference::find(run.as_os_str())?.directory();
    let inside = directory.join("events");
    Ok(if inside.is_dir() { inside } else { directory })
}

fn unknown(text: &OsStr) -> LaunchError {
    let shown = text.to_string_lossy();
    if shown.contains('/') {
        return LaunchError::NoRun { directory: text.into() };
    }
    LaunchError::UnknownRun(shown.into_owned())
}

fn directory(runs: &Path, text: &OsStr) -> Option<PathBuf> {
    let path = Path::new(text);
    if path.is_dir() {
        return Some(path.to_path_buf());
    }
    let name =
        text.to_str().filter(|name| !name.is_empty() && !name.contains('/') && !name.starts_with('.'))?;
    let exact = runs.join(name);
    if exact.is_dir() {
        return Some(if name == LAST { std::fs::canonicalize(&exact).unwrap_or(exact) } else { exact });
    }
    newest(runs, name).map(|(_, run)| run).or_else(|| of_job(runs, name)).map(|run| run.path().to_path_buf())
}

/// Returns the newest run that has run in the batch job `job` or was submitted as this job.
fn of_job(runs: &Path, job: &str) -> Option<RunDirectory> {
    if !job.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let is_job = |run: &RunDirectory| {
        let submitted = Description::read(run).and_then(|description| description.batch);
        let started =
            || run.attempts().into_iter().filter_map(|number| Attempt::of(run, number).start()?.batch);
        let is_successor = |number: u32| {
            Attempt::of(run, number).end().and_then(|end| end.successor).as_deref() == Some(job)
        };
        submitted.into_iter().chain(started()).any(|batch| batch.job == job)
            || run.attempts().into_iter().any(is_successor)
    };
    all(runs).into_iter().rev().find(is_job)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::attempt::Start;
    use super::super::description::BatchJob;
    use super::*;

    fn find(runs: &Path, text: &str) -> Result<(String, Option<u32>), String> {
        let found = Reference::find_in(runs, OsStr::new(text)).map_err(|error| error.to_string())?;
        Ok((found.run.name(), found.attempt))
    }

    #[test]
    fn runs_are_found_by_directory_name_job_and_attempt() {
        let dir = tempfile::tempdir().unwrap();
        let runs = dir.path().join(RUNS);
        let first = RunDirectory::create(&runs, "day").unwrap();
        let description = Description {
            batch: Some(BatchJob { system: "slurm".into(), job: "48211".into() }),
            ..Description::default()
        };
        description.write(&first).unwrap();
        let second = RunDirectory::create(&runs, "day").unwrap();
        let attempt = Attempt::take(&second).unwrap();
        let batch = Some(BatchJob { system: "slurm".into(), job: "48212_7".into() });
        attempt.write_start(&Start { batch, ..Start::default() }).unwrap();
        for (text, run, attempt) in [
            ("last", "day-2", None),
            ("day", "day-2", None),
            ("day-1", "day-1", None),
            ("48211", "day-1", None),
            ("48212_7", "day-2", None),
            ("day@1", "day-2", Some(1)),
            ("last@1", "day-2", Some(1)),
            ("48212_7@1", "day-2", Some(1)),
            (first.path().to_str().unwrap(), "day-1", None),
        ] {
            assert_eq!(find(&runs, text), Ok((run.to_string(), attempt)), "{text}");
        }
        assert!(find(&runs, "day@2").unwrap_err().contains("day-2 has no attempt 2"));
        assert!(find(&runs, "day-1@1").unwrap_err().contains("day-1 has no attempt"));
        for text in
            ["", "x", "@1", "day@", "day@x", "day@0", "48213", "../armature-runs", ".", "day/1", "$(id)"]
        {
            let found = find(&runs, text);
            // `.` names the current directory of this test, so that it is accepted as a run.
            assert!(found.is_err() || text == ".", "{text}: {found:?}");
        }
    }

    #[test]
    fn events_may_be_in_a_separate_directory() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(events(dir.path()).unwrap(), dir.path());
        fs::create_dir(dir.path().join("events")).unwrap();
        assert_eq!(events(dir.path()).unwrap(), dir.path().join("events"));
        assert!(events(&dir.path().join("none")).is_err());
    }
}

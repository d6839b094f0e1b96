//! Attempts of a run. An attempt is one start of the program. Its directory `attempts/K` has the events and the status file of the ranks,
//! `start.json` and `why.json`.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use armature::job_status::{EVENTS_COPY, JobStatus};
use serde::{Deserialize, Serialize};

use super::RunDirectory;
use super::description::{BatchJob, now, seconds_since_1970, write_json};
use super::end_reason::End;
use crate::batch::slurm;
use crate::error::LaunchError;

const START: &str = "start.json";
const WHY: &str = "why.json";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    number: u32,
    directory: PathBuf,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Start {
    pub(crate) schema: u32,
    pub(crate) started: String,
    /// Host of the process `armature run` that started the attempt.
    pub(crate) host: String,
    pub(crate) process: u32,
    /// Start time of the process `armature run`, in the kernel's clock ticks, which distinguishes it from a later process with the same process ID.
    pub(crate) process_began: u64,
    /// Host and PID namespace in which the ID of the process `armature run` is unique.
    pub(crate) place: String,
    pub(crate) batch: Option<BatchJob>,
    /// Time at which the batch job reaches its time limit, in seconds since 1970.
    pub(crate) ends_at: Option<u64>,
    pub(crate) requeues: u32,
    pub(crate) nodes: String,
    pub(crate) ranks: usize,
    /// True if the launcher marks each line of output with the rank that printed it.
    pub(crate) labelled: bool,
    /// Length in bytes of the log file of a run before this attempt (start of the program) has printed anything.
    pub(crate) log_offset: u64,
    pub(crate) launcher: String,
}

impl Start {
    pub(crate) fn now(ranks: usize, labelled: bool, launcher: String, log_offset: u64) -> Self {
        let get = |name: &str| std::env::var(name).ok();
        let batch = BatchJob::own();
        let end = get("SLURM_JOB_END_TIME").and_then(|time| time.trim().parse().ok());
        let seconds_left =
            || slurm::seconds_left(&batch.as_ref().filter(|batch| batch.system == "slurm")?.job);
        let requeues = get("SLURM_RESTART_COUNT").and_then(|count| count.trim().parse().ok()).unwrap_or(0);
        let ends_at = end.or_else(|| Some(seconds_since_1970() + seconds_left()?));
        Start {
            schema: 1,
            started: now(),
            host: crate::supervise::host(),
            process: std::process::id(),
            process_began: crate::supervise::began(std::process::id()).unwrap_or(0),
            place: armature::job_status::place(),
            batch,
            ends_at,
            requeues,
            nodes: get("SLURM_JOB_NODELIST").unwrap_or_default(),
            ranks,
            labelled,
            log_offset,
            launcher,
        }
    }

    /// Returns true if the process that started the attempt is alive, or `None` if it is on another host.
    pub(crate) fn is_alive(&self) -> Option<bool> {
        let is_here = !self.place.is_empty() && self.place == armature::job_status::place();
        is_here.then(|| {
            let is_same = crate::supervise::began(self.process) == Some(self.process_began);
            is_same && crate::supervise::is_alive(self.process)
        })
    }
}

impl Attempt {
    /// Creates the directory `attempts/K`, which reserves the number of the next attempt.
    pub(crate) fn take(run: &RunDirectory) -> Result<Self, LaunchError> {
        let attempts = run.attempts_directory();
        let failed =
            |path: &Path| LaunchError::io(format!("create the directory of an attempt {}", path.display()));
        fs::create_dir_all(&attempts).map_err(failed(&attempts))?;
        let mut number = run.attempts().last().copied().unwrap_or(0) + 1;
        loop {
            let attempt = Attempt::of(run, number);
            match fs::create_dir(&attempt.directory) {
                Ok(()) => return Ok(attempt),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => number += 1,
                Err(error) => return Err(failed(&attempt.directory)(error)),
            }
        }
    }

    pub(crate) fn of(run: &RunDirectory, number: u32) -> Self {
        Attempt { number, directory: run.attempts_directory().join(number.to_string()) }
    }

    pub(crate) fn newest(run: &RunDirectory) -> Option<Self> {
        run.attempts().last().map(|&number| Attempt::of(run, number))
    }

    pub(crate) fn number(&self) -> u32 {
        self.number
    }

    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    pub(crate) fn write_start(&self, start: &Start) -> Result<(), LaunchError> {
        write_json(&self.directory.join(START), start)
    }

    /// Writes `why.json`, unless the file exists.
    pub(crate) fn write_end(&self, end: &End) -> Result<(), LaunchError> {
        let file = self.directory.join(WHY);
        if file.exists() { Ok(()) } else { write_json(&file, end) }
    }

    pub(crate) fn add_successor(&self, job: &str) -> Result<(), LaunchError> {
        let end = self.end().map(|end| End { requeued: true, successor: Some(job.into()), ..end });
        end.map_or(Ok(()), |end| write_json(&self.directory.join(WHY), &end))
    }

    /// Returns the seconds from the start of an attempt to the last write of the ranks to their status file.
    pub(crate) fn last_sign(&self) -> Option<f64> {
        let written =
            |name: &str| fs::metadata(self.directory.join(name)).and_then(|file| file.modified()).ok();
        Some(written(EVENTS_COPY)?.duration_since(written(START)?).ok()?.as_secs_f64())
    }

    pub(crate) fn start(&self) -> Option<Start> {
        serde_json::from_slice(&fs::read(self.directory.join(START)).ok()?).ok()
    }

    pub(crate) fn end(&self) -> Option<End> {
        serde_json::from_slice(&fs::read(self.directory.join(WHY)).ok()?).ok()
    }

    pub(crate) fn status(&self) -> Option<JobStatus> {
        JobStatus::read(&self.directory.join(EVENTS_COPY)).ok().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concurrent_starts_take_different_attempts() {
        let dir = tempfile::tempdir().unwrap();
        let run = RunDirectory::at(dir.path());
        assert_eq!(Attempt::newest(&run), None);
        let numbers: Vec<u32> = std::thread::scope(|scope| {
            let takes: Vec<_> =
                (0..8).map(|_| scope.spawn(|| Attempt::take(&run).unwrap().number())).collect();
            takes.into_iter().map(|take| take.join().unwrap()).collect()
        });
        let mut sorted = numbers.clone();
        sorted.sort_unstable();
        assert_eq!(sorted, [1, 2, 3, 4, 5, 6, 7, 8]);
        // A file of the user that has the name of an attempt's directory must not be replaced.
        fs::write(dir.path().join("attempts/9"), "mine").unwrap();
        assert_eq!(Attempt::take(&run).unwrap().number(), 10);
        assert_eq!(run.attempts(), [1, 2, 3, 4, 5, 6, 7, 8, 10]);
    }

    #[test]
    fn start_record_round_trips_and_its_process_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let attempt = Attempt::take(&RunDirectory::at(dir.path())).unwrap();
        assert_eq!((attempt.start(), attempt.end(), attempt.status()), (None, None, None));
        let start = Start::now(3, false, "mpirun -n 3 x".into(), 17);
        attempt.write_start(&start).unwrap();
        assert_eq!(attempt.start(), Some(start.clone()));
        assert_eq!(start.is_alive(), Some(true));
        assert_eq!(Start { process_began: 1, ..start.clone() }.is_alive(), Some(false));
        assert_eq!(Start { place: "elsewhere".into(), ..start }.is_alive(), None);
    }
}

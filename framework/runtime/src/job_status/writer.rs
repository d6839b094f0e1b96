//! Writer of the job status, the file with the state and the result of a job.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::comm::process::is_alive;
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::{Attempt, EVENTS_COPY, JobStatus, STOPPED, State, StatusLock, place};

/// Minimum time between two writes of the number of completed tasks to the status file.
const PERIOD: Duration = Duration::from_secs(1);

/// Writer of the job status on one rank. Rank 0 writes the complete status. Another rank writes only its failure, and only if the file exists,
/// because rank 0 or the launcher creates it.
#[derive(Debug, Default)]
pub(crate) struct StatusWriter {
    path: Option<PathBuf>,
    /// Path of a copy of the status file in the directory of the event logs.
    copy_path: Option<PathBuf>,
    rank: usize,
    job_status: JobStatus,
    /// Tasks that earlier farms, pipelines, loops and workflows of this job have completed.
    done_before: u64,
    /// Error message that the program has set: the job has failed although all ranks end without an error.
    failure: Option<String>,
    /// Sentence with the cause of the stop and the kept results, if all ranks end because the job was asked to stop.
    kept: Option<String>,
    next: Duration,
    _lock: Option<StatusLock>,
    _attempt: Option<Attempt>,
}

impl StatusWriter {
    /// Creates the writer of the job status on `rank`, in a session of `size` ranks whose events go to the directory of `attempt`. Rank 0 writes the
    /// first status.
    ///
    /// # Errors
    /// If rank 0 cannot write the file, or if the file is the job status of another job. A failed write of the copy in the directory of the event
    /// logs is not an error.
    pub(crate) fn start(
        path: Option<&Path>,
        attempt: Option<Attempt>,
        rank: usize,
        size: usize,
    ) -> Result<Self> {
        // The number of restarts and the identity of the launcher in an existing status file are kept, because the launcher has written them.
        let found = path.and_then(|path| JobStatus::read(path).ok().flatten()).unwrap_or_default();
        let lock = match path {
            Some(path) if rank == 0 && !is_prepared(&found) => Some(JobStatus::claim(path)?),
            _ => None,
        };
        let found = if lock.is_some() { JobStatus::default() } else { found };
        let JobStatus { restarts, starter, started_by, .. } = found;
        let (process, place) = (std::process::id(), place());
        let job_status =
            JobStatus { ranks: size, process, place, restarts, starter, started_by, ..JobStatus::default() };
        let mut writer = StatusWriter {
            path: path.map(Path::to_path_buf),
            copy_path: attempt.as_ref().map(|attempt| attempt.directory().join(EVENTS_COPY)),
            rank,
            job_status,
            _lock: lock,
            _attempt: attempt,
            ..StatusWriter::default()
        };
        if writer.rank == 0 {
            writer.write()?;
        }
        Ok(writer)
    }

    /// Returns the path of the status file: the configured one or, without it, the one in the directory of the event logs.
    fn file(&self) -> Option<&Path> {
        self.path.as_deref().or(self.copy_path.as_deref())
    }

    /// Records on rank 0 that all ranks have started and registered.
    ///
    /// # Errors
    /// If the status file cannot be written.
    pub(crate) fn started(&mut self) -> Result<()> {
        self.job_status.state = State::Running;
        self.write()
    }

    #[inline]
    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.rank == 0 && self.file().is_some() && now >= self.next
    }

    /// Prepares for the next farm, pipeline, loop or workflow of the job, whose completed tasks are added to those of earlier ones.
    pub(crate) fn begin_run(&mut self) {
        self.done_before = self.job_status.done;
    }

    /// Records that `tasks` tasks of the current farm, pipeline, loop or workflow are completed. The status file is written at most once per second,
    /// and at once when the first task of a job is completed.
    pub(crate) fn done(&mut self, tasks: u64, now: Duration) {
        let done = self.done_before + tasks;
        if done == self.job_status.done {
            return;
        }
        self.job_status.done = done;
        if self.is_due(now) {
            self.next = now + PERIOD;
            self.write_on();
        }
    }

    pub(crate) fn conclude(&mut self, failure: String) {
        self.failure = Some(failure);
    }

    pub(crate) fn stop(&mut self, kept: String) {
        self.kept = Some(kept);
    }

    pub(crate) fn lost(&mut self, rank: usize) {
        if self.rank == 0
            && let Err(at) = self.job_status.lost.binary_search(&rank)
        {
            self.job_status.lost.insert(at, rank);
            self.write_on();
        }
    }

    pub(crate) fn fail(&mut self, error: &Error, restart: bool) {
        // The status file is read first, because another rank may have written a failure to it in the meantime.
        let found = self.file().and_then(|path| JobStatus::read(path).ok().flatten());
        let ended = found.as_ref().is_some_and(|job_status| job_status.state.has_ended());
        // Only rank 0 creates the status file. If this rank finds none, rank 0 has created it on another machine.
        let is_of_another =
            found.as_ref().is_some_and(|found| found.started_by != self.job_status.started_by);
        if ended || is_of_another || (found.is_none() && self.rank != 0) {
            return;
        }
        if let Some(found) = found.filter(|_| self.rank != 0) {
            self.job_status = found;
        }
        let message = error.to_string();
        self.job_status =
            JobStatus { state: State::Failed, code: 1, message, restart, ..self.job_status.clone() };
        self.write_or_warn();
    }

    /// Records the end of the job, which has finished unless it was stopped or the program has set an error message.
    ///
    /// # Errors
    /// If the status file cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match (self.failure.take(), self.kept.take()) {
            (None, None) => self.job_status.state = State::Finished,
            (None, Some(kept)) => {
                let before = self.job_status.clone();
                self.job_status = JobStatus { state: State::Stopped, code: STOPPED, kept, ..before };
            }
            (Some(message), _) => {
                let before = self.job_status.clone();
                self.job_status =
                    JobStatus { state: State::Failed, code: 1, message, restart: false, ..before };
            }
        }
        if self.rank == 0 { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        let written = self.copy_path.as_deref().map(|path| self.job_status.write(path));
        if let Some(Err(error)) = written {
            log::warn!("cannot write the job status next to the events: {error}");
            self.copy_path = None;
        }
        let Some(path) = &self.path else { return Ok(()) };
        // This process does not hold the lock if a launcher has to hold it. Then the content of the status file is checked before each write, because
        // some file systems do not share locks between hosts, and because a killed launcher has released its lock.
        let found = JobStatus::read(path).ok().flatten().filter(|_| self._lock.is_none());
        if let Some(other) = found.filter(|found| found.started_by != self.job_status.started_by) {
            log::warn!(
                "the job status {} belongs to another job, started by {}: this job no longer writes to it",
                path.display(),
                other.started_by
            );
            self.path = None;
            return Ok(());
        }
        self.job_status.write(path)
    }

    /// Writes the status of a running job. A failure that another rank has written meanwhile is kept, because rank 0 may receive it
    /// only later.
    fn write_on(&mut self) {
        let found = self.file().and_then(|path| JobStatus::read(path).ok().flatten());
        if found.is_none_or(|job_status| job_status.state != State::Failed) {
            self.write_or_warn();
        }
    }

    fn write_or_warn(&mut self) {
        if let Err(error) = self.write() {
            log::warn!("{error}");
        }
    }
}

/// Returns true if a launcher has created the status file for this process; the launcher then holds the lock of the file. The file may still contain
/// the status of an earlier attempt, which has ended or whose process is dead: a network file system may show old content after a restart.
fn is_prepared(found: &JobStatus) -> bool {
    let is_here = found.place == place();
    let is_own = is_here && found.process == std::process::id();
    found.starter != 0
        && (found.process == 0 || is_own || found.state.has_ended() || (is_here && !is_alive(found.process)))
}

/// Returns true if the same job may succeed when it is restarted after an error of this kind, because a machine, a link or another rank failed.
pub(crate) fn may_restart(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::Timeout | ErrorKind::Transport | ErrorKind::Peer)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(path: &Path) -> JobStatus {
        JobStatus::read(path).unwrap().expect("a job_status")
    }

    fn error() -> Error {
        Error::new(ErrorKind::User, "no fuel").at_rank(2)
    }

    #[test]
    fn status_follows_the_job_from_start_to_finish() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let mut writer = StatusWriter::start(Some(&path), None, 0, 3).unwrap();
        assert_eq!((read(&path).state, read(&path).ranks), (State::Starting, 3));
        assert_eq!(read(&path).process, std::process::id());
        writer.started().unwrap();
        assert_eq!((read(&path).state, read(&path).ranks), (State::Running, 3));
        for (tasks, at, written) in [(5, 0, 5), (6, 999, 5), (7, 1000, 7), (8, 1001, 7)] {
            writer.done(tasks, Duration::from_millis(at));
            assert_eq!(read(&path).done, written, "at {at} ms");
        }
        writer.begin_run();
        writer.done(2, Duration::from_millis(2000));
        assert_eq!(read(&path).done, 10);
        for rank in [2, 1, 2] {
            writer.lost(rank);
        }
        assert_eq!((read(&path).lost, read(&path).done), (vec![1, 2], 10));
        writer.finish().unwrap();
        assert_eq!((read(&path).state, read(&path).code), (State::Finished, 0));
        // A rank that fails after the job has finished cannot overwrite the final status.
        StatusWriter::start(Some(&path), None, 2, 3).unwrap().fail(&error(), true);
        assert_eq!(read(&path).state, State::Finished);
    }

    #[test]
    fn stopped_job_reports_saved_progress() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let mut writer = StatusWriter::start(Some(&path), None, 0, 1).unwrap();
        writer.stop("566 of 1,200 tasks are in j".into());
        writer.finish().unwrap();
        let status = read(&path);
        assert_eq!(
            (status.state, status.code, status.kept.as_str()),
            (State::Stopped, STOPPED, "566 of 1,200 tasks are in j")
        );
        assert!(status.state.has_ended() && status.message.is_empty());
        let text = std::fs::read_to_string(&path).unwrap();
        assert!(text.contains(r#""state":"stopped""#), "{text}");
    }

    #[test]
    fn first_failure_of_any_rank_counts() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let mut other = StatusWriter::start(Some(&path), None, 2, 3).unwrap();
        other.fail(&error(), false);
        assert!(!path.exists(), "there is no rank 0 on this machine");
        let mut root = StatusWriter::start(Some(&path), None, 0, 3).unwrap();
        root.done(4, Duration::ZERO);
        other.fail(&error(), true);
        root.fail(&Error::new(ErrorKind::Peer, "rank 2 failed"), false);
        root.lost(1);
        root.done(9, Duration::from_secs(9));
        let job_status = read(&path);
        assert_eq!(
            (job_status.state, job_status.code, job_status.done),
            (State::Failed, 1, 4),
            "whatever rank 0 does then"
        );
        assert_eq!((job_status.message.as_str(), job_status.restart), ("rank 2: no fuel", true));
    }

    #[test]
    fn status_file_is_optional_but_must_be_writable() {
        let mut writer = StatusWriter::start(None, None, 0, 1).unwrap();
        assert!(!writer.is_due(Duration::from_secs(9)), "nobody is asked how much is done");
        writer.fail(&error(), true);
        writer.finish().unwrap();
        assert!(StatusWriter::start(Some(Path::new("/no/such/place")), None, 0, 1).is_err());
        assert!(StatusWriter::start(Some(Path::new("/no/such/place")), None, 1, 2).is_ok());
    }

    #[test]
    fn event_directory_has_a_copy_with_launcher_data() {
        let dir = tempfile::tempdir().unwrap();
        let (path, events) = (dir.path().join("v"), dir.path().join("deep/events"));
        let known =
            JobStatus { restarts: 2, starter: 77, started_by: "process 77".into(), ..JobStatus::default() };
        known.write(&path).unwrap();
        let attempt = || Some(Attempt::take(&events).unwrap());
        let mut writer = StatusWriter::start(Some(&path), attempt(), 0, 3).unwrap();
        writer.started().unwrap();
        let copy = read(&events.join("attempts/1").join(EVENTS_COPY));
        assert_eq!((copy.state, copy.restarts, copy.starter), (State::Running, 2, 77));
        assert_eq!(copy, read(&path));
        drop(writer);
        // Without a separate status file, the job status in the directory of the event logs is the only one.
        let mut writer = StatusWriter::start(None, attempt(), 0, 3).unwrap();
        writer.lost(2);
        let copy = read(&events.join("attempts/2").join(EVENTS_COPY));
        assert_eq!((copy.state, copy.restarts, copy.lost), (State::Starting, 0, vec![2]));
        writer.finish().unwrap();
    }

    #[test]
    fn status_of_another_job_is_not_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let lock = JobStatus::claim(&path).unwrap();
        let of = |started_by: &str| JobStatus {
            starter: 77,
            started_by: started_by.into(),
            ..JobStatus::default()
        };
        // Rank 0 accepts both kinds of status in a file that a launcher has created: a new status, and that of an earlier attempt, which has died.
        for before in [of("one"), JobStatus { state: State::Failed, process: 5, ..of("one") }] {
            before.write(&path).unwrap();
            StatusWriter::start(Some(&path), None, 0, 1).unwrap();
        }
        // A status file was not created for this process if it names another process, which is alive and writes to it.
        let parent = std::os::unix::process::parent_id();
        let running = JobStatus { state: State::Running, process: parent, place: place(), ..of("one") };
        assert!(
            !is_prepared(&running)
                && !is_prepared(&JobStatus { started_by: String::new(), starter: 0, ..running })
        );
        // Another launcher replaces the status file by that of its own job (`two`) while the first job (`one`) runs: the first job must not write to
        // it any more.
        of("one").write(&path).unwrap();
        let mut writer = StatusWriter::start(Some(&path), None, 0, 3).unwrap();
        let mut other = StatusWriter::start(Some(&path), None, 1, 3).unwrap();
        of("two").write(&path).unwrap();
        other.fail(&error(), true);
        writer.started().unwrap();
        writer.fail(&error(), true);
        writer.finish().unwrap();
        assert_eq!(read(&path), of("two"));
        drop(lock);
        let writer = StatusWriter::start(Some(&dir.path().join("own")), None, 0, 1).unwrap();
        assert!(writer._lock.is_some());
    }

    #[test]
    fn program_can_conclude_failure_despite_clean_exit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let mut writer = StatusWriter::start(Some(&path), None, 0, 1).unwrap();
        writer.done(1, Duration::ZERO);
        writer.conclude("1 of 2 tasks has failed".into());
        writer.finish().unwrap();
        let JobStatus { state, code, message, restart, done, .. } = read(&path);
        assert_eq!((state, code, restart, done), (State::Failed, 1, false, 1));
        assert_eq!(message, "1 of 2 tasks has failed");
    }
}

//! Keeping the file in which a job says how it stands.

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};
use crate::job_status::{BESIDE_EVENTS, JobStatus, State, place};

/// How often the number of tasks that are done is written, at most.
const PERIOD: Duration = Duration::from_secs(1);

/// One rank's part in the job status. Rank 0 writes how the job stands; another rank only that it fails, and only where the
/// file is there, which rank 0 or whoever started the job has made.
#[derive(Debug, Default)]
pub(crate) struct StatusWriter {
    path: Option<PathBuf>,
    /// Where the same is to be found beside the events, by whoever looks at them.
    beside_events: Option<PathBuf>,
    rank: usize,
    job_status: JobStatus,
    next: Duration,
}

impl StatusWriter {
    /// Begins a session of `size` ranks on this `rank`, whose log of events is in the directory `events`.
    ///
    /// # Errors
    /// When rank 0 cannot write the file. That beside the events is no reason.
    pub(crate) fn start(
        path: Option<&Path>,
        events: Option<&Path>,
        rank: usize,
        size: usize,
    ) -> Result<Self> {
        let (process, place) = (std::process::id(), place());
        // Who starts the job leaves there what only it knows.
        let found = path.and_then(|path| JobStatus::read(path).ok().flatten()).unwrap_or_default();
        let JobStatus { restarts, starter, .. } = found;
        let job_status = JobStatus { ranks: size, process, place, restarts, starter, ..JobStatus::default() };
        let mut writer = StatusWriter {
            path: path.map(Path::to_path_buf),
            beside_events: events.map(|events| events.join(BESIDE_EVENTS)),
            rank,
            job_status,
            next: Duration::ZERO,
        };
        if writer.rank == 0 {
            if let Some(Err(error)) = events.map(std::fs::create_dir_all) {
                log::warn!("the job status is not beside the events: {error}");
                writer.beside_events = None;
            }
            writer.write()?;
        }
        Ok(writer)
    }

    /// The file that counts: beside the events, if there is no other.
    fn file(&self) -> Option<&Path> {
        self.path.as_deref().or(self.beside_events.as_deref())
    }

    /// On rank 0: all ranks have started and found each other.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn started(&mut self) -> Result<()> {
        self.job_status.state = State::Running;
        self.write()
    }

    /// `tasks` further tasks are done.
    #[inline]
    pub(crate) fn done(&mut self, tasks: u64, now: impl FnOnce() -> Duration) {
        if self.file().is_some() && self.rank == 0 && tasks != self.job_status.done {
            self.job_status.done = tasks;
            let now = now();
            if now >= self.next {
                self.next = now + PERIOD;
                self.write_on();
            }
        }
    }

    /// The job goes on without `rank`.
    pub(crate) fn lost(&mut self, rank: usize) {
        if self.rank == 0
            && let Err(at) = self.job_status.lost.binary_search(&rank)
        {
            self.job_status.lost.insert(at, rank);
            self.write_on();
        }
    }

    /// The job ends because of an error, on this rank or another.
    pub(crate) fn fail(&mut self, error: &Error, restart: bool) {
        // The file may hold what another rank has written meanwhile.
        let found = self.file().and_then(|path| JobStatus::read(path).ok().flatten());
        let ended = found.as_ref().is_some_and(|job_status| job_status.state.has_ended());
        // Other ranks make no file: where they find none, it is on another machine.
        if ended || (found.is_none() && self.rank != 0) {
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

    /// The job has done what it was to do.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub(crate) fn finish(&mut self) -> Result<()> {
        self.job_status.state = State::Finished;
        if self.rank == 0 { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<()> {
        // Anybody can guess the name: a link there may have been made by somebody else.
        let written = self.beside_events.as_deref().map(|path| match path.is_symlink() {
            true => Err(Error::new(ErrorKind::Io, format!("{} is a symbolic link", path.display()))),
            false => self.job_status.write(path),
        });
        if let Some(Err(error)) = written {
            log::warn!("the job status is not beside the events: {error}");
            self.beside_events = None;
        }
        self.path.as_deref().map_or(Ok(()), |path| self.job_status.write(path))
    }

    /// Writes that the job goes on, unless another rank has written meanwhile that it has failed: rank 0 may hear of that
    /// later.
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

/// Whether the same job may succeed if it is started again: where a machine, a link or another rank was at fault.
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
    fn from_start_to_finish() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let mut writer = StatusWriter::start(Some(&path), None, 0, 3).unwrap();
        assert_eq!((read(&path).state, read(&path).ranks), (State::Starting, 3));
        assert_eq!(read(&path).process, std::process::id());
        writer.started().unwrap();
        assert_eq!((read(&path).state, read(&path).ranks), (State::Running, 3));
        for (tasks, at, written) in [(5, 0, 5), (6, 999, 5), (7, 1000, 7), (8, 1001, 7)] {
            writer.done(tasks, || Duration::from_millis(at));
            assert_eq!(read(&path).done, written, "at {at} ms");
        }
        for rank in [2, 1, 2] {
            writer.lost(rank);
        }
        assert_eq!((read(&path).lost, read(&path).done), (vec![1, 2], 8));
        writer.finish().unwrap();
        assert_eq!((read(&path).state, read(&path).code), (State::Finished, 0));
        // A straggler cannot spoil it.
        StatusWriter::start(Some(&path), None, 2, 3).unwrap().fail(&error(), true);
        assert_eq!(read(&path).state, State::Finished);
    }

    #[test]
    fn the_first_failure_counts_whichever_rank_it_is_of() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("v");
        let mut other = StatusWriter::start(Some(&path), None, 2, 3).unwrap();
        other.fail(&error(), false);
        assert!(!path.exists(), "there is no rank 0 on this machine");
        let mut root = StatusWriter::start(Some(&path), None, 0, 3).unwrap();
        root.done(4, || Duration::ZERO);
        other.fail(&error(), true);
        root.fail(&Error::new(ErrorKind::Peer, "rank 2 failed"), false);
        root.lost(1);
        root.done(9, || Duration::from_secs(9));
        let job_status = read(&path);
        assert_eq!(
            (job_status.state, job_status.code, job_status.done),
            (State::Failed, 1, 4),
            "whatever rank 0 does then"
        );
        assert_eq!((job_status.message.as_str(), job_status.restart), ("rank 2: no fuel", true));
    }

    #[test]
    fn without_a_file_nothing_is_written_and_with_a_bad_one_nothing_starts() {
        let mut writer = StatusWriter::start(None, None, 0, 1).unwrap();
        writer.done(1, || panic!("no clock is read"));
        writer.fail(&error(), true);
        writer.finish().unwrap();
        assert!(StatusWriter::start(Some(Path::new("/no/such/place")), None, 0, 1).is_err());
        assert!(StatusWriter::start(Some(Path::new("/no/such/place")), None, 1, 2).is_ok());
    }

    #[test]
    fn the_same_is_beside_the_events_with_what_the_starter_knows() {
        let dir = tempfile::tempdir().unwrap();
        let (path, events) = (dir.path().join("v"), dir.path().join("deep/events"));
        let known = JobStatus { restarts: 2, starter: 77, ..JobStatus::default() };
        known.write(&path).unwrap();
        let mut writer = StatusWriter::start(Some(&path), Some(&events), 0, 3).unwrap();
        writer.started().unwrap();
        let beside = read(&events.join(BESIDE_EVENTS));
        assert_eq!((beside.state, beside.restarts, beside.starter), (State::Running, 2, 77));
        assert_eq!(beside, read(&path));
        // Without another file it is the one that counts; a place where nothing can be written does no harm.
        let mut writer = StatusWriter::start(None, Some(&events), 0, 3).unwrap();
        StatusWriter::start(None, Some(&events), 1, 3).unwrap().fail(&error(), false);
        writer.lost(2);
        let beside = read(&events.join(BESIDE_EVENTS));
        assert_eq!((beside.state, beside.restarts), (State::Failed, 0));
        writer.finish().unwrap();
        StatusWriter::start(None, Some(Path::new("/proc/none")), 0, 1).unwrap().finish().unwrap();
        // What has been planted there is not followed.
        let (victim, link) = (dir.path().join("victim"), events.join(BESIDE_EVENTS));
        std::fs::write(&victim, "precious").unwrap();
        std::fs::remove_file(&link).unwrap();
        std::os::unix::fs::symlink(&victim, &link).unwrap();
        StatusWriter::start(None, Some(&events), 0, 1).unwrap().finish().unwrap();
        assert_eq!(std::fs::read_to_string(&victim).unwrap(), "precious");
    }
}

//! Writer of a rank's event log.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use armature_files::regular::{Links, open_with};

use super::event::Event;
use super::record::Record;
use crate::job_status::file_of_rank;

/// Maximum time for which a rank keeps an event in memory before it writes it to the log file.
const FLUSH_AFTER: Duration = Duration::from_secs(1);
/// Maximum size in bytes of the events that a rank keeps in memory before it writes them to the log file.
const FLUSH_ABOVE: usize = 64 << 10;

/// Event log of a rank. Without a directory for events the log is disabled: a logging call then only tests a pointer, and neither creates an event
/// nor allocates memory.
#[derive(Debug)]
pub(crate) struct EventLog {
    open: Option<Box<Open>>,
}

/// Origin of the events in a log: the rank, the number of the run (parallel operation of the session), and the difference between the rank's clock
/// and rank 0's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LogOrigin {
    pub(crate) rank: usize,
    /// Number, from 0, of the parallel operation within the session.
    pub(crate) run: u32,
    /// Seconds to add to this rank's clock to get rank 0's clock.
    pub(crate) offset: f64,
}

#[derive(Debug)]
struct Open {
    origin: LogOrigin,
    file: File,
    path: PathBuf,
    lines: Vec<u8>,
    /// Time of the oldest event that is not in the log file yet.
    waiting_since: Duration,
}

impl EventLog {
    pub(crate) fn off() -> Self {
        EventLog { open: None }
    }

    /// Opens the log of one rank in `dir`, which is created if it does not exist. All runs of a session append to the same file.
    ///
    /// If the log cannot be written, a warning is logged once and the log is disabled; the job continues. A symbolic link or a FIFO in place of the
    /// file is not written to.
    pub(crate) fn open(dir: &Path, origin: LogOrigin) -> Self {
        EventLog::open_as(Stem::Decisions, dir, origin)
    }

    pub(crate) fn open_as(stem: Stem, dir: &Path, origin: LogOrigin) -> Self {
        match Open::new(stem, dir, origin) {
            Ok(open) => EventLog { open: Some(Box::new(open)) },
            Err((path, error)) => {
                complain(&path, &error);
                EventLog::off()
            }
        }
    }

    pub(crate) fn is_on(&self) -> bool {
        self.open.is_some()
    }

    #[inline]
    pub(crate) fn record(&mut self, now: Duration, event: impl FnOnce() -> Event) {
        if let Some(open) = &mut self.open {
            let result = open.record(now, event());
            self.check(result);
        }
    }

    /// Writes the lines to the log file if they have been in memory for a second. The caller has to call this function repeatedly.
    #[inline]
    pub(crate) fn tick(&mut self, now: Duration) {
        if let Some(open) = &mut self.open {
            let result = open.tick(now);
            self.check(result);
        }
    }

    #[cfg(test)]
    pub(crate) fn flush(&mut self) {
        if let Some(open) = &mut self.open {
            let result = open.flush();
            self.check(result);
        }
    }

    #[inline]
    fn check(&mut self, result: io::Result<()>) {
        if let Err(error) = result
            && let Some(mut open) = self.open.take()
        {
            complain(&open.path, &error);
            open.lines.clear();
        }
    }
}

impl Open {
    fn new(stem: Stem, dir: &Path, origin: LogOrigin) -> Result<Self, (PathBuf, io::Error)> {
        fs::create_dir_all(dir).map_err(|e| (dir.to_path_buf(), e))?;
        let path = dir.join(stem.file_name(origin.rank));
        // A symbolic link in place of the log file is refused, because another user may have created it: the name of the file is easy to guess.
        let opened = open_with(&path, OpenOptions::new().append(true).create(true), Links::Refused);
        let file = opened.map_err(|e| (path.clone(), e))?;
        Ok(Open { origin, file, path, lines: Vec::new(), waiting_since: Duration::ZERO })
    }

    fn record(&mut self, now: Duration, event: Event) -> io::Result<()> {
        let LogOrigin { rank, run, offset, .. } = self.origin;
        if self.lines.is_empty() {
            self.waiting_since = now;
        }
        let record = Record { at: now.as_secs_f64() + offset, rank, run, event };
        serde_json::to_writer(&mut self.lines, &record)?;
        self.lines.push(b'\n');
        if self.lines.len() > FLUSH_ABOVE { self.flush() } else { self.tick(now) }
    }

    fn tick(&mut self, now: Duration) -> io::Result<()> {
        if self.lines.is_empty() || now.saturating_sub(self.waiting_since) < FLUSH_AFTER {
            return Ok(());
        }
        self.flush()
    }

    fn flush(&mut self) -> io::Result<()> {
        // All lines are written in one call, so that a reader of the log rarely sees a part of a line.
        let result = self.file.write_all(&self.lines);
        self.lines.clear();
        result
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        if let Err(error) = self.flush() {
            complain(&self.path, &error);
        }
    }
}

fn complain(path: &Path, error: &io::Error) {
    log::warn!("event logging has stopped: cannot write {}: {error}", path.display());
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stem {
    /// Log of the decisions and actions of a rank.
    Decisions,
    /// Log of the times that a rank spent on computing, waiting and communicating.
    Activity,
}

impl Stem {
    fn text(self) -> &'static str {
        match self {
            Stem::Decisions => "rank",
            Stem::Activity => "activity",
        }
    }

    pub(super) fn file_name(self, rank: usize) -> String {
        file_of_rank(self.text(), rank)
    }

    pub(super) fn of(name: &str) -> Option<(Stem, usize)> {
        let (stem, rank) = name.strip_suffix(".jsonl")?.split_once('-')?;
        let stem = [Stem::Decisions, Stem::Activity].into_iter().find(|known| known.text() == stem)?;
        let rank = rank.parse().ok()?;
        (stem.file_name(rank) == name).then_some((stem, rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observe::read;

    fn file_name(rank: usize) -> String {
        Stem::Decisions.file_name(rank)
    }

    const START: Duration = Duration::ZERO;

    fn origin(rank: usize, run: u32) -> LogOrigin {
        LogOrigin { rank, run, offset: 0.0 }
    }

    fn ready(epoch: u32) -> Event {
        Event::Ready { epoch }
    }

    fn lines(dir: &Path, rank: usize) -> usize {
        fs::read_to_string(dir.join(file_name(rank))).unwrap().lines().count()
    }

    #[test]
    fn disabled_log_creates_no_events() {
        let mut log = EventLog::off();
        log.record(START, || panic!("an event was made"));
        log.tick(START);
        log.flush();
        assert!(!log.is_on());
        assert_eq!(size_of::<EventLog>(), size_of::<usize>());
    }

    #[test]
    fn directory_is_created_and_times_use_rank_0s_clock() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path().join("deep/down");
        let mut log = EventLog::open(&dir, LogOrigin { offset: -0.5, ..origin(3, 0) });
        log.record(Duration::from_millis(2250), || ready(7));
        drop(log);
        let text = fs::read_to_string(dir.join("rank-3.jsonl")).unwrap();
        assert_eq!(text, "{\"at\":1.75,\"rank\":3,\"run\":0,\"event\":{\"kind\":\"ready\",\"epoch\":7}}\n");
    }

    #[test]
    fn all_runs_of_a_session_append_to_one_file() {
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        for run in 0..2 {
            for rank in 0..2 {
                EventLog::open(dir, origin(rank, run)).record(START, || ready(2));
            }
        }
        assert_eq!((lines(dir, 0), lines(dir, 1)), (2, 2));
        let runs: Vec<u32> = read(dir).unwrap().records.iter().map(|r| r.run).collect();
        assert_eq!(runs, [0, 0, 1, 1]);
    }

    #[test]
    fn lines_are_flushed_within_one_second() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = EventLog::open(dir.path(), origin(0, 0));
        let at = Duration::from_millis;
        log.record(at(5000), || ready(1));
        log.tick(at(5999));
        assert_eq!(lines(dir.path(), 0), 0);
        log.tick(at(6000));
        assert_eq!(lines(dir.path(), 0), 1);
        log.record(at(6500), || ready(2));
        log.record(at(7500), || ready(3));
        assert_eq!(lines(dir.path(), 0), 3);
        log.record(at(7600), || ready(4));
        log.flush();
        assert_eq!(lines(dir.path(), 0), 4);
    }

    #[test]
    fn full_buffer_is_written_early() {
        let dir = tempfile::tempdir().unwrap();
        let mut log = EventLog::open(dir.path(), origin(0, 0));
        for _ in 0..3000 {
            log.record(START, || ready(1));
        }
        assert!(lines(dir.path(), 0) > 1000);
    }

    #[test]
    fn write_error_ends_the_log_but_not_the_job() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let mut log = EventLog::open(&file, origin(0, 0));
        assert!(!log.is_on());
        log.record(START, || panic!("an event was made"));

        let victim = dir.path().join("victim");
        fs::write(&victim, "precious").unwrap();
        std::os::unix::fs::symlink(&victim, dir.path().join(file_name(0))).unwrap();
        assert!(
            std::process::Command::new("mkfifo")
                .arg(dir.path().join(file_name(1)))
                .status()
                .unwrap()
                .success()
        );
        for (rank, run) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            assert!(!EventLog::open(dir.path(), origin(rank, run)).is_on(), "rank {rank}, run {run}");
        }
        assert_eq!(fs::read_to_string(&victim).unwrap(), "precious");
        fs::remove_file(dir.path().join(file_name(0))).unwrap();

        // The test writes the log to the device `/dev/full`, which behaves like a file on a full disk.
        let full = Path::new("/dev/full");
        let mut log = EventLog::open(dir.path(), origin(0, 0));
        if let Some(open) = &mut log.open {
            open.file = OpenOptions::new().write(true).open(full).unwrap();
        }
        log.record(START, || ready(1));
        log.flush();
        assert!(!log.is_on());
    }
}

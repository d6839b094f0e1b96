//! Incremental reading of the event logs of all ranks while the ranks write them.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader, ErrorKind as IoKind, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

use armature_files::regular;
use armature_text::shown;

use super::activity::SCHEMA;
use super::event::Event;
use super::log::Stem;
use super::record::Record;
use crate::error::{Error, ErrorKind, Result};
use crate::job_status::newest_attempt;

/// Maximum length in bytes of a line in a log file. The longest events list all ranks; a damaged file may contain no line ends.
const LONGEST: u64 = 16 << 20;

/// Events that were added to a log since it was last read.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct NewRecords {
    /// True if the job was restarted with a new log: earlier records belong to another start of the job.
    pub is_restarted: bool,
    /// Events since the last call of [`poll`](Follower::poll), in the order of a [`Log`](super::Log).
    pub records: Vec<Record>,
}

/// Reads the log of a running job incrementally.
///
/// ```
/// use armature::observe::Follower;
///
/// let dir = tempfile::tempdir()?;
/// let mut follower = Follower::new(dir.path());
/// assert!(follower.poll()?.records.is_empty());
/// let line = |epoch| format!("{{\"at\":1.5,\"rank\":0,\"run\":0,\"event\":{{\"kind\":\"ready\",\"epoch\":{epoch}}}}}\n");
/// std::fs::write(dir.path().join("rank-0.jsonl"), line(1) + &line(2)[..20])?;
/// assert_eq!(follower.poll()?.records.len(), 1);
/// std::fs::write(dir.path().join("rank-0.jsonl"), line(1) + &line(2))?;
/// assert_eq!(follower.poll()?.records.len(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Follower {
    dir: PathBuf,
    /// Directory of the events of the attempt (start of the job) that is being read.
    attempt: PathBuf,
    tails: BTreeMap<(Stem, usize), Tail>,
    starts: Starts,
    /// Events about a rank's use of its time that were read before the start event of rank 0. Without that event, their times cannot be converted to
    /// rank 0's clock.
    held: Vec<Record>,
}

#[derive(Debug)]
struct Tail {
    path: PathBuf,
    /// Number of bytes of the log file that were read so far; `lines` is the number of lines in them.
    read: u64,
    lines: u64,
    /// First line of the log file. It contains the start time of the rank, so a change shows that the file was replaced.
    first_line: Vec<u8>,
}

/// Start time of each rank in each run (by the run's number and the rank), on a clock that all ranks share.
type Starts = BTreeMap<(u32, usize), f64>;

impl Follower {
    /// Creates a follower of the [newest attempt](newest_attempt) (start of the job) in `dir`.
    pub fn new(dir: &Path) -> Self {
        let (tails, starts, held) = (BTreeMap::new(), Starts::new(), Vec::new());
        Follower { dir: dir.into(), attempt: newest_attempt(dir), tails, starts, held }
    }

    /// Reads the lines that ranks have written to their logs since the last call. An incomplete line is read by a later call.
    ///
    /// # Errors
    /// The errors of [`read`](super::read()), except that a directory without events is not an error: there are no new records.
    pub fn poll(&mut self) -> Result<NewRecords> {
        let has_new_attempt = newest_attempt(&self.dir) != self.attempt;
        let had_files = !self.tails.is_empty();
        if has_new_attempt {
            *self = Follower::new(&self.dir);
        }
        let mut files = Vec::new();
        for (stem, rank, path) in find(&self.attempt)? {
            let file = regular::open(&path).map_err(unreadable(&path))?;
            files.push(((stem, rank), path, BufReader::new(file)));
        }
        let mut is_restarted = files.len() < self.tails.len();
        for (key, _, file) in &mut files {
            if let Some(tail) = self.tails.get(key) {
                is_restarted |= !tail.is_continued(file).map_err(unreadable(&tail.path))?;
            }
        }
        if is_restarted {
            *self = Follower::new(&self.dir);
        }
        // Events that the last call held back, because rank 0's start event was missing, are returned now, even if their times still cannot be
        // converted to rank 0's clock.
        let mut records = std::mem::take(&mut self.held);
        let held_records = records.len();
        for (key, path, mut file) in files {
            let tail = self.tails.entry(key).or_insert_with(|| Tail::new(path));
            let before = records.len();
            tail.take(key.1, &mut file, &mut records)?;
            if key.0 == Stem::Activity {
                record_starts(&records[before..], &mut self.starts);
            }
        }
        self.align(&mut records);
        let mut number = 0;
        self.held = records
            .extract_if(.., |record| {
                number += 1;
                number > held_records
                    && record.event.is_of_activity()
                    && !self.starts.contains_key(&(record.run, 0))
            })
            .collect();
        sort(&mut records);
        Ok(NewRecords { is_restarted: is_restarted || (has_new_attempt && had_files), records })
    }

    pub(super) fn missing(&self, ranks: usize) -> Vec<String> {
        let expected = (0..ranks).map(|rank| (Stem::Activity, rank)).chain([(Stem::Decisions, 0)]);
        let missing = expected.filter(|key| !self.tails.contains_key(key));
        missing.map(|(stem, rank)| stem.file_name(rank)).collect()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tails.is_empty()
    }

    /// Returns the events that were held back because rank 0's start event is missing, and the events in last lines without a line end. Also returns
    /// warnings about incomplete lines. Called by readers that read the log only once.
    pub(super) fn rest(&mut self) -> Result<(Vec<Record>, Vec<String>)> {
        let (mut last, mut notes) = (std::mem::take(&mut self.held), Vec::new());
        for (&(_, rank), tail) in &self.tails {
            match tail.unfinished(rank)? {
                Some(Ok(record)) => last.push(record),
                Some(Err(note)) => notes.push(note),
                None => {}
            }
        }
        self.align(&mut last);
        Ok((last, notes))
    }

    /// Converts the times of events about a rank's use of its time: they count from this rank's start, and afterwards from rank 0's start.
    fn align(&self, records: &mut [Record]) {
        for record in records {
            let start = |rank| self.starts.get(&(record.run, rank));
            let (Some(own), Some(first)) = (start(record.rank), start(0)) else { continue };
            if record.event.is_of_activity() {
                record.at += own - first;
            }
        }
    }
}

/// Returns the version of the log format that a line states, if any. Called for lines that are not a known event.
fn schema_of(line: &[u8]) -> Option<u32> {
    let value: serde_json::Value = serde_json::from_slice(line).ok()?;
    value["event"]["schema"].as_u64().map(|schema| schema.try_into().unwrap_or(u32::MAX))
}

fn record_starts(records: &[Record], starts: &mut Starts) {
    for record in records {
        if let Event::RankStart(start) = &record.event {
            starts.insert((record.run, record.rank), start.clock_s);
        }
    }
}

/// Sorts records of events by run and time. The sort is stable: events of a rank with equal times stay in order.
pub(super) fn sort(records: &mut [Record]) {
    records.sort_by(|a, b| a.run.cmp(&b.run).then(a.at.total_cmp(&b.at)));
}

fn find(dir: &Path) -> Result<Vec<(Stem, usize, PathBuf)>> {
    let mut files = Vec::new();
    for entry in fs::read_dir(dir).map_err(unreadable(dir))? {
        let entry = entry.map_err(unreadable(dir))?;
        if let Some((stem, rank)) = entry.file_name().to_str().and_then(Stem::of) {
            files.push((stem, rank, entry.path()));
        }
    }
    files.sort_unstable();
    Ok(files)
}

fn unreadable(path: &Path) -> impl Fn(std::io::Error) -> Error {
    move |e| Error::new(ErrorKind::Io, format!("cannot read {}: {e}", path.display()))
}

impl Tail {
    fn new(path: PathBuf) -> Self {
        Tail { path, read: 0, lines: 0, first_line: Vec::new() }
    }

    /// Returns true if the log file is still the file that was read before: its first line is unchanged and the file has not become shorter.
    fn is_continued(&self, file: &mut BufReader<fs::File>) -> std::io::Result<bool> {
        let mut begin = vec![0; self.first_line.len()];
        match file.read_exact(&mut begin) {
            Ok(()) => Ok(begin == self.first_line && file.get_ref().metadata()?.len() >= self.read),
            Err(e) if e.kind() == IoKind::UnexpectedEof => Ok(false),
            Err(e) => Err(e),
        }
    }

    fn take(&mut self, rank: usize, file: &mut BufReader<fs::File>, records: &mut Vec<Record>) -> Result<()> {
        file.seek(SeekFrom::Start(self.read)).map_err(unreadable(&self.path))?;
        let mut line = Vec::new();
        loop {
            line.clear();
            file.take(LONGEST + 1).read_until(b'\n', &mut line).map_err(unreadable(&self.path))?;
            if line.len() as u64 > LONGEST {
                return Err(self.foreign(rank, format!("it has more than {LONGEST} bytes")));
            }
            if !line.ends_with(b"\n") {
                return Ok(());
            }
            records.push(self.record(rank, &line)?);
            if self.read == 0 {
                self.first_line.clone_from(&line);
            }
            self.read += line.len() as u64;
            self.lines += 1;
        }
    }

    fn record(&self, rank: usize, line: &[u8]) -> Result<Record> {
        let schema = |event: &Event| match event {
            Event::RankStart(start) => Some(start.schema),
            _ => None,
        };
        let found = serde_json::from_slice::<Record>(line);
        let schema = match &found {
            Ok(record) => schema(&record.event),
            // The line may be a start event in another version of the log format, with other fields.
            Err(_) => schema_of(line),
        };
        match found {
            _ if schema.is_some_and(|schema| schema != SCHEMA) => {
                let (path, schema) = (self.path.display(), schema.unwrap_or_default());
                let text = format!(
                    "{path} has events of schema {schema}; this program reads schema {SCHEMA}: use the `armature` of \
                     the version that wrote them"
                );
                Err(Error::new(ErrorKind::Io, text))
            }
            Ok(record) if record.rank == rank => Ok(record),
            Ok(record) => Err(self.foreign(rank, format!("found one of rank {}", record.rank))),
            Err(error) => Err(self.foreign(rank, error.to_string())),
        }
    }

    fn foreign(&self, rank: usize, why: String) -> Error {
        let (path, line) = (self.path.display(), self.lines + 1);
        Error::new(
            ErrorKind::Io,
            format!("{path}, line {line}: expected an event of rank {rank}: {}", shown(&why)),
        )
    }

    /// Parses the last line of a log file, if the line has no line end. Returns an event, or a warning if the line is incomplete.
    fn unfinished(&self, rank: usize) -> Result<Option<std::result::Result<Record, String>>> {
        let wrong = unreadable(&self.path);
        let mut file = BufReader::new(regular::open(&self.path).map_err(&wrong)?);
        file.seek(SeekFrom::Start(self.read)).map_err(&wrong)?;
        let mut line = Vec::new();
        file.take(LONGEST).read_until(b'\n', &mut line).map_err(&wrong)?;
        Ok(match serde_json::from_slice::<Record>(&line) {
            _ if line.is_empty() => None,
            Ok(record) if record.rank == rank => Some(Ok(record)),
            Ok(record) => return Err(self.foreign(rank, format!("found one of rank {}", record.rank))),
            Err(_) => {
                Some(Err(format!("{}: the last line is incomplete and was ignored", self.path.display())))
            }
        })
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::activity::{RankStart, SCHEMA};
    use super::*;

    pub(in crate::observe) fn file_name(rank: usize) -> String {
        Stem::Decisions.file_name(rank)
    }

    pub(in crate::observe) fn line(at: f64, rank: usize, run: u32, epoch: u32) -> String {
        serde_json::to_string(&Record { at, rank, run, event: Event::Ready { epoch } }).unwrap() + "\n"
    }

    #[test]
    fn growing_log_is_read_once_in_whole_lines() {
        let dir = tempfile::tempdir().unwrap();
        let mut follower = Follower::new(dir.path());
        assert_eq!(follower.poll().unwrap(), NewRecords::default());
        let write = |rank: usize, text: &str| fs::write(dir.path().join(file_name(rank)), text).unwrap();
        let whole: String = (1..=3).map(|n| line(f64::from(n), 0, 0, n)).collect();
        let mut seen = Vec::new();
        for cut in 0..=whole.len() {
            write(0, &whole[..cut]);
            let new_records = follower.poll().unwrap();
            assert!(!new_records.is_restarted);
            seen.extend(new_records.records.iter().map(|record| record.at));
            assert_eq!(seen.len(), whole[..cut].matches('\n').count());
        }
        assert_eq!(seen, [1.0, 2.0, 3.0]);
        write(1, &line(0.5, 1, 0, 9));
        assert_eq!(follower.poll().unwrap().records.len(), 1);
        write(0, &(whole + "x\n"));
        let error = follower.poll().unwrap_err().to_string();
        assert!(error.contains("rank-0.jsonl, line 4: expected an event of rank 0"), "{error}");
    }

    #[test]
    fn restarted_log_is_read_from_its_start() {
        let dir = tempfile::tempdir().unwrap();
        let write = |text: &str| fs::write(dir.path().join(file_name(0)), text).unwrap();
        let first = line(1.0, 0, 0, 1) + &line(2.0, 0, 0, 2);
        let mut follower = Follower::new(dir.path());
        write(&first);
        assert_eq!(follower.poll().unwrap().records.len(), 2);
        // The log file is replaced three times: by a shorter file, by one of the same length, and by a longer one. Finally it is removed.
        let others = [line(1.5, 0, 0, 3), first.replace('1', "4"), first.repeat(3).replace('1', "5")];
        for (other, lines) in others.iter().zip([1, 2, 6]) {
            write(other);
            let new_records = follower.poll().unwrap();
            assert!(new_records.is_restarted && new_records.records.len() == lines, "{new_records:?}");
            assert_eq!(follower.poll().unwrap(), NewRecords::default());
        }
        fs::remove_file(dir.path().join(file_name(0))).unwrap();
        assert_eq!(follower.poll().unwrap(), NewRecords { is_restarted: true, records: Vec::new() });
    }

    #[test]
    fn events_wait_for_the_clock_of_rank_0() {
        let dir = tempfile::tempdir().unwrap();
        let mut follower = Follower::new(dir.path());
        let mut write = |rank: usize, clock_s: f64| {
            let start = RankStart {
                schema: SCHEMA,
                ranks: 3,
                what: "the farm".into(),
                host: "h".into(),
                program: "p".into(),
                clock_s,
                kinds: Vec::new(),
                memory_limit: None,
                threads: Vec::new(),
            };
            let record = Record { at: 0.0, rank, run: 0, event: Event::RankStart(start) };
            let text = serde_json::to_string(&record).unwrap() + "\n";
            fs::write(dir.path().join(Stem::Activity.file_name(rank)), text).unwrap();
            follower.poll().unwrap().records.iter().map(|record| (record.rank, record.at)).collect::<Vec<_>>()
        };
        assert_eq!(write(1, 100.5), []);
        assert_eq!(write(0, 100.0), [(0, 0.0), (1, 0.5)]);
        assert_eq!(write(2, 102.0), [(2, 2.0)]);
    }
}

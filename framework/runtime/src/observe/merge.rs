//! Reading of the event logs of all ranks of a job as one list.

use std::path::Path;

use super::event::Event;
use super::follow::{Follower, sort};
use super::record::Record;
use crate::error::{Error, ErrorKind, Result};

/// Maximum number of missing log files that a warning about them names.
const NAMED: usize = 8;

/// Events of all ranks of a job, from their log files.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Log {
    /// Events, sorted by run, and by time within a run. Events of one rank at the same time are in the order in which they were written.
    pub records: Vec<Record>,
    /// Warnings about missing parts of the log: the last line of a rank that was killed while it wrote, or the file of a rank.
    pub notes: Vec<String>,
}

impl Log {
    /// Creates a log of `records`, without warnings about missing parts.
    pub fn new(records: Vec<Record>) -> Self {
        Log { records, notes: Vec::new() }
    }
}

/// Reads the events that the ranks of a job have written to `dir`.
///
/// An incomplete last line of a file is left out, and a warning in [`notes`](Log::notes) says so: the rank was killed while it wrote.
///
/// # Errors
/// [`ErrorKind::Io`] if the directory or a file cannot be read or there are no events. The error names file and line if a line is not an event, or an
/// event of another rank.
pub fn read(dir: &Path) -> Result<Log> {
    let mut follower = Follower::new(dir);
    let mut records = follower.poll()?.records;
    if follower.is_empty() {
        let text = format!("there are no events in {}: expected files rank-0.jsonl, …", dir.display());
        return Err(Error::new(ErrorKind::Io, text));
    }
    let (mut last, mut notes) = follower.rest()?;
    records.append(&mut last);
    sort(&mut records);
    let ranks = records.iter().filter_map(|record| match &record.event {
        Event::RankStart(start) => Some(start.ranks),
        _ => None,
    });
    if let Some(ranks) = ranks.max() {
        notes.extend(missing_note(&follower.missing(ranks), dir));
    }
    Ok(Log { records, notes })
}

fn missing_note(missing: &[String], dir: &Path) -> Option<String> {
    let (first, rest) = missing.split_at(missing.len().min(NAMED));
    let more = match rest.len() {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (names, dir) = (first.join(", "), dir.display());
    (!first.is_empty())
        .then(|| format!("{names}{more} missing in {dir}: the activity of these ranks is unknown"))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::super::activity::{Activity, RankStart, SCHEMA};
    use super::super::follow::tests::{file_name, line};
    use super::super::log::Stem;
    use super::*;

    fn logs(files: &[&[u8]]) -> tempfile::TempDir {
        let dir = tempfile::tempdir().unwrap();
        for (rank, text) in files.iter().enumerate() {
            fs::write(dir.path().join(file_name(rank)), text).unwrap();
        }
        dir
    }

    fn epochs(log: &Log) -> Vec<u32> {
        let epoch = |r: &Record| match r.event {
            Event::Ready { epoch } => epoch,
            _ => 0,
        };
        log.records.iter().map(epoch).collect()
    }

    #[test]
    fn events_are_merged_stably_by_run_and_time() {
        let root = line(0.5, 0, 0, 1) + &line(2.0, 0, 0, 4) + &line(2.0, 0, 0, 5) + &line(2.5, 0, 1, 8);
        // In this test, rank 1's first run ends after rank 0's second run has begun, because rank 1's clock is slightly ahead. The events of each run
        // must stay together.
        let other = line(1.0, 1, 0, 2) + &line(2.0, 1, 0, 6) + &line(2.6, 1, 0, 7) + &line(2.7, 1, 1, 9);
        let negative = line(-0.001, 2, 0, 0);
        let dir = logs(&[root.as_bytes(), other.as_bytes(), negative.as_bytes()]);
        let log = read(dir.path()).unwrap();
        assert_eq!(epochs(&log), [0, 1, 2, 4, 5, 6, 7, 8, 9]);
        assert!(log.notes.is_empty());
    }

    #[test]
    fn activity_times_are_converted_to_rank_0s_clock() {
        let dir = logs(&[line(0.5, 0, 0, 1).as_bytes()]);
        for (rank, clock_s) in [(0, 1000.0), (1, 1000.25)] {
            let start = RankStart {
                schema: SCHEMA,
                ranks: 2,
                what: "the farm".into(),
                host: "h".into(),
                program: "p".into(),
                clock_s,
                kinds: vec!["task".into()],
                memory_limit: None,
                threads: Vec::new(),
            };
            let part = Activity { seconds: 1.0, ..Activity::default() };
            let events = [(0.0, Event::RankStart(start)), (1.0, Event::Activity(part))];
            let records = events.map(|(at, event)| Record { at, rank, run: 0, event });
            let lines = records.iter().map(|record| serde_json::to_string(record).unwrap() + "\n");
            fs::write(dir.path().join(Stem::Activity.file_name(rank)), lines.collect::<String>()).unwrap();
        }
        let log = read(dir.path()).unwrap();
        let times: Vec<(usize, f64)> = log.records.iter().map(|record| (record.rank, record.at)).collect();
        assert_eq!(times, [(0, 0.0), (1, 0.25), (0, 0.5), (0, 1.0), (1, 1.25)]);
    }

    #[test]
    fn missing_files_are_named_and_another_schema_is_refused() {
        let start = |schema: u32, ranks: usize| {
            format!(
                r#"{{"at":0.0,"rank":0,"run":0,"event":{{"kind":"rank_start","schema":{schema},"ranks":{ranks},"what":"the farm","host":"h","program":"p","clock_s":0.0,"kinds":[]}}}}"#
            ) + "\n"
        };
        let write =
            |dir: &Path, text: String| fs::write(dir.join(Stem::Activity.file_name(0)), text).unwrap();
        let dir = logs(&[line(0.5, 0, 0, 1).as_bytes()]);
        write(dir.path(), start(SCHEMA, 12));
        let notes = read(dir.path()).unwrap().notes;
        let names = (1..=8).map(|rank| format!("activity-{rank}.jsonl")).collect::<Vec<_>>().join(", ");
        assert!(
            notes.len() == 1 && notes[0].starts_with(&format!("{names} and 3 more missing in ")),
            "{notes:?}"
        );
        write(dir.path(), start(SCHEMA, 1));
        assert!(read(dir.path()).unwrap().notes.is_empty());
        fs::remove_file(dir.path().join(file_name(0))).unwrap();
        assert!(read(dir.path()).unwrap().notes[0].starts_with("rank-0.jsonl missing in "));
        for text in [start(99, 1), start(99, 1).replace("\"kinds\":[]", "\"sorts\":[]")] {
            write(dir.path(), text);
            let error = read(dir.path()).unwrap_err().to_string();
            assert!(
                error.contains("activity-0.jsonl has events of schema 99; this program reads schema "),
                "{error}"
            );
        }
    }

    #[test]
    fn incomplete_last_line_is_ignored_and_noted() {
        let whole = line(1.0, 0, 0, 1) + &line(2.0, 0, 0, 2);
        for cut in 1..line(2.0, 0, 0, 2).len() - 1 {
            let dir = logs(&[&whole.as_bytes()[..whole.len() - 1 - cut]]);
            let log = read(dir.path()).unwrap();
            assert_eq!(epochs(&log), [1], "cut by {cut}");
            assert!(log.notes[0].ends_with("rank-0.jsonl: the last line is incomplete and was ignored"));
        }
        let dir = logs(&[whole.trim_end().as_bytes()]);
        assert_eq!(epochs(&read(dir.path()).unwrap()), [1, 2]);
    }

    #[test]
    fn foreign_line_is_refused_with_its_position() {
        let good = line(1.0, 0, 0, 1);
        let foreign =
            ["{}\n", "\n", "hello\n", "{\"at\":1,\"rank\":0,\"run\":0,\"event\":{\"kind\":\"party\"}}\n"];
        for foreign in foreign {
            let dir = logs(&[(good.clone() + foreign + &good).as_bytes()]);
            let error = read(dir.path()).unwrap_err().to_string();
            assert!(error.contains("rank-0.jsonl, line 2: expected an event of rank 0: "), "{error}");
        }
        let long =
            format!("{{\"at\":1,\"rank\":0,\"run\":0,\"event\":{{\"kind\":\"{}\"}}}}\n", "x".repeat(500_000));
        let error = read(logs(&[long.as_bytes()]).path()).unwrap_err().to_string();
        assert!(error.contains("unknown variant `xxx") && error.len() < 500, "{} bytes", error.len());
        let dir = logs(&[&[good.as_bytes(), b"\xff\xfe\n"].concat()]);
        assert!(read(dir.path()).unwrap_err().to_string().contains("line 2"));
        let dir = logs(&[good.as_bytes()]);
        let file = fs::OpenOptions::new().write(true).open(dir.path().join(file_name(0))).unwrap();
        file.set_len(1 << 36).unwrap();
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("line 2") && error.contains("more than 16777216 bytes"), "{error}");
        let dir = logs(&[line(1.0, 1, 0, 1).as_bytes()]);
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.ends_with("line 1: expected an event of rank 0: found one of rank 1"), "{error}");
    }

    #[test]
    fn fifo_is_refused_without_blocking() {
        let dir = logs(&[]);
        assert!(
            std::process::Command::new("mkfifo")
                .arg(dir.path().join(file_name(0)))
                .status()
                .unwrap()
                .success()
        );
        let error = read(dir.path()).unwrap_err().to_string();
        assert!(error.contains("rank-0.jsonl: is a FIFO, expected a regular file"), "{error}");
    }

    #[test]
    fn directory_without_events_is_an_error() {
        let dir = logs(&[]);
        assert!(read(dir.path()).unwrap_err().to_string().starts_with("there are no events in"));
        assert!(read(&dir.path().join("none")).unwrap_err().to_string().starts_with("cannot read"));
    }
}

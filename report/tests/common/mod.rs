//! Made-up logs for tests of the page.

use std::path::{Path, PathBuf};

use armature::observe::activity::{Activity, Longest, RankStart, SCHEMA, Traffic, Work};
use armature::observe::{Event, Log, Record};

/// A name that would be a script if it were not text.
pub(crate) const HOSTILE: &str =
    "</script><script>document.title='broken'</script><img src=x onerror=alert(1)>\"'&";

/// What rank `rank` of `ranks` tells of its time, in `parts` parts of `seconds`.
pub(crate) fn rank(rank: usize, ranks: usize, parts: u32, seconds: f64, name: &str) -> Vec<Record> {
    let record = |at, event| Record { at, rank, run: 0, event };
    let start = RankStart {
        schema: SCHEMA,
        ranks,
        what: "the pipeline".into(),
        host: format!("h{}{name}", rank / 2),
        program: name.into(),
        clock_s: 1.7e9,
        kinds: vec!["numbers".into(), name.into(), "sum".into()],
        memory_limit: Some(8 << 30),
    };
    let mut records = vec![record(0.0, Event::RankStart(start))];
    for n in 1..=parts {
        // Rank 1 works all the time, the others wait for it more and more, and lose their core for a while.
        let work = if rank == 1 { 0.97 } else { 0.9 - 0.6 * f64::from(n) / f64::from(parts) };
        let lost = if n % 50 < 10 && rank == 2 { 0.3 } else { 0.0 };
        let activity = Activity {
            seconds,
            work_s: work * seconds,
            idle_s: (1.0 - work) * 0.7 * seconds,
            parked_s: 0.0,
            lost_s: lost * seconds,
            done: vec![u64::from(rank == 0), 1, u64::from(rank == 0)],
            longest: Some(Longest { of: 1, first: Some(u64::from(n)), count: 1, seconds: work * seconds }),
        };
        records.push(record(f64::from(n) * seconds, Event::Activity(activity)));
    }
    let end = f64::from(parts) * seconds;
    let work = Work { of: 1, done: u64::from(parts), seconds: 0.6 * end, steps: vec![(44, 100), (45, 20)] };
    records.push(record(end, Event::Work(work)));
    let to = (0..ranks).filter(|to| *to != rank).map(|to| (to, 10, 4000 * (rank as u64 + 1))).collect();
    records.push(record(end, Event::Traffic(Traffic { to, memory_peak: Some(300 << 20) })));
    records.push(record(end, Event::RankEnd { seconds: end }));
    records
}

/// A pipeline of four ranks whose mapping changes once, in which every name is this one.
pub(crate) fn pipeline(name: &str) -> Log {
    let mut records: Vec<Record> = (0..4).flat_map(|n| rank(n, 4, 400, 0.025, name)).collect();
    let mut tell = |at, event| records.push(Record { at, rank: 0, run: 0, event });
    let mapping = |ranks: &str| format!("numbers@0 | {name}@{ranks} | sum@0");
    tell(0.0, Event::Start { ranks: 4, mapping: mapping("1"), balance: "live".into() });
    tell(4.0, Event::Switch { epoch: 2, mapping: mapping("1-3") });
    let of = Default::default();
    tell(6.0, Event::Outcome { of, epoch: 2, before_s: 0.03, predicted_s: 0.01, after_s: 0.012 });
    tell(10.0, Event::Finish { items: 400, seconds: 10.0 });
    records.sort_by(|a, b| a.at.total_cmp(&b.at));
    Log { records, notes: vec![format!("rank-1.jsonl: {name}")] }
}

/// The kept log of a simulated run.
#[allow(dead_code, reason = "not every test program that shares this file uses it")]
pub(crate) fn kept(name: &str) -> Log {
    let path = repository().join("tests/golden/events").join(format!("{name}.jsonl"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut records: Vec<Record> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    records.sort_by(|a, b| a.run.cmp(&b.run).then(a.at.total_cmp(&b.at)));
    Log { records, notes: Vec::new() }
}

#[allow(dead_code, reason = "not every test program that shares this file uses it")]
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

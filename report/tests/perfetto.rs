//! Tests of traces with the Python package `perfetto`, which contains Perfetto's own definition of the format and
//! Google's reader of protocol buffers. `ci/test.sh report` installs the package into target/perfetto.

mod common;

use std::path::Path;
use std::process::Command;

use armature::observe::{Event, Log, Record};
use armature_report::perfetto;
use serde_json::{Value, json};

fn read(log: &Log) -> Value {
    let repository = common::repository();
    let python = repository.join("target/perfetto/bin/python");
    assert!(python.is_file(), "{} is missing: ci/test.sh report makes it", python.display());
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("trace.pftrace");
    std::fs::write(&file, perfetto(log)).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto_counts.py");
    let output = Command::new(python).arg(script).arg(&file).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
#[ignore = "needs the Python package perfetto"]
fn trace_has_the_expected_slices_flows_and_counters() {
    let mut log = common::pipeline(common::HOSTILE);
    let stage = || common::HOSTILE.to_string();
    for n in 0..3u32 {
        let at = 3.0 + f64::from(n);
        let hand_over = Event::HandOver { stage: stage(), to: 1, next_batch: u64::from(n), bytes: 10 };
        let take = Event::TakeOver { stage: stage(), from: 0, next_batch: u64::from(n) };
        log.records.push(Record { at, rank: 0, run: 0, event: hand_over });
        log.records.push(Record { at: at + 0.5, rank: 1, run: 0, event: take });
    }
    // Each of the four ranks has 400 activity records. Each record has a longest call, which is a
    // slice, and seven counters. The instants are four events of the pipeline and the six events
    // that this test adds.
    let expected = json!({"processes": 4, "threads": 4, "counters": 28, "slices": 1600, "values": 11200, "instants": 10, "flows": 3,
        "seconds": 10.0});
    assert_eq!(read(&log), expected);
}

#[test]
#[ignore = "needs the Python package perfetto"]
fn traces_of_simulated_runs_are_read_by_perfetto() {
    for name in ["pipeline", "farm", "doall", "grid", "workflow"] {
        let log = common::stored_log(name);
        let counts = read(&log);
        let listed_events = log.records.iter().filter(|record| !record.event.is_of_activity()).count();
        assert_eq!(counts["instants"], listed_events, "{name}: {counts}");
        let hand_overs =
            log.records.iter().filter(|record| matches!(record.event, Event::HandOver { .. })).count();
        assert_eq!(counts["flows"], hand_overs, "{name}: {counts}");
    }
}

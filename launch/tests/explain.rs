//! Tests of `armature explain` on the event log of a small run with three ranks and one change of the mapping (of pipeline stages to ranks).

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn sample() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events")
}

fn explain(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_armature")).arg("explain").args(args).arg(dir).output().unwrap()
}

#[track_caller]
fn explanation(args: &[&str], dir: &Path) -> String {
    let output = explain(args, dir);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

fn copy() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    for entry in fs::read_dir(sample()).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), dir.path().join(entry.file_name())).unwrap();
    }
    dir
}

#[test]
fn mapping_change_is_explained_from_reason_to_outcome() {
    assert_eq!(explanation(&[], &sample()), include_str!("events/explained.txt"));
}

#[test]
fn all_events_are_shown_on_request() {
    let text = explanation(&["--all"], &sample());
    let shown = |what: &str| text.replace(['\n', ' '], "").contains(&what.replace(' ', ""));
    assert!(shown("The mapping stays, because the gain is too small"), "{text}");
    assert!(shown("Stage seg takes 2.400 ms an item on rank 1, after 400 items by trimmed mean."), "{text}");
    assert!(shown("Stage count migrated here from rank 2 and continues with batch 93."), "{text}");
    assert!(!text.contains("not shown"), "{text}");
    let events = text.lines().filter(|line| line.contains(" s  rank ")).count();
    assert_eq!(events, 15, "{text}");
}

#[test]
fn short_set_ups_are_shown_only_on_request() {
    let dir = copy();
    let file = dir.path().join("rank-1.jsonl");
    let short = fs::read_to_string(&file).unwrap().replace("\"seconds\":0.04", "\"seconds\":0.00004");
    fs::write(&file, short).unwrap();
    assert!(!explanation(&[], dir.path()).contains("rank 1    Stage seg was set up"));
    assert!(explanation(&["--all"], dir.path()).contains("rank 1    Stage seg was set up in 40.000 us."));
}

#[test]
fn runs_are_explained_one_after_the_other() {
    let dir = copy();
    let file = dir.path().join("rank-0.jsonl");
    let first = fs::read_to_string(&file).unwrap();
    let start = first.lines().nth(1).unwrap();
    fs::write(&file, first.clone() + &start.replace("\"run\":0", "\"run\":1") + "\n").unwrap();
    let text = explanation(&[], dir.path());
    let runs: Vec<&str> = text.lines().filter(|line| line.starts_with("run ")).collect();
    assert_eq!(runs, ["run 1", "run 2"]);
    assert!(
        text.ends_with(
            "No decision was made during the run.\nThe log does not contain the end of the run: it has failed or is \
             still running.\n"
        ),
        "{text}"
    );
}

/// A program may change the mapping of stages to ranks itself, so that the log has no decision for it.
#[test]
fn mapping_change_without_a_decision_is_reported_as_a_change() {
    let dir = tempfile::tempdir().unwrap();
    let start =
        r#"{"at":0.0,"rank":0,"run":0,"event":{"kind":"start","ranks":2,"mapping":"a@0","balance":"off"}}"#;
    let switch = |epoch: u32| {
        format!(
            r#"{{"at":1.0,"rank":0,"run":0,"event":{{"kind":"switch","epoch":{epoch},"mapping":"a@1"}}}}"#
        )
    };
    for (epoch, is_change) in [(1, false), (2, true)] {
        fs::write(dir.path().join("rank-0.jsonl"), format!("{start}\n{}\n", switch(epoch))).unwrap();
        let text = explanation(&[], dir.path());
        assert_eq!(text.contains("No decision was made"), !is_change, "{text}");
    }
}

#[test]
fn farm_is_explained_with_chunking_choices_and_lost_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let events = [
        r#"{"kind":"farm_start","farm":"rows","ranks":4,"workers":4,"chunking":"auto","balance":"live"}"#,
        r#"{"kind":"chunks","by":"fac2","before":"dpf with f = 0.25","left":900,"workers":4,"mean_s":0.004,
            "deviation_s":0.002,"block":1.0,"message_s":2e-6,"predicted_s":1.4,"before_s":null,"compared":27}"#,
        r#"{"kind":"lost","rank":2,"tasks":12,"why":"its process has ended"}"#,
        r#"{"kind":"failures","failed":0,"retried":1,"again":12}"#,
        r#"{"kind":"finish","items":1000,"seconds":1.5}"#,
    ];
    let line = |(at, event): (usize, &&str)| {
        format!("{{\"at\":{at}.5,\"rank\":0,\"run\":0,\"event\":{}}}\n", event.replace('\n', ""))
    };
    let lines: String = events.iter().enumerate().map(line).collect();
    fs::write(dir.path().join("rank-0.jsonl"), lines).unwrap();
    let text = explanation(&[], dir.path());
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    for sentence in [
        "1.500 s rank 0 Chunking is now `fac2`, because it is the fastest of 27 for the 900 tasks left",
        "Rank 2 is lost: its process has ended; its 12 tasks are requeued.",
        "1 attempt was retried, and 12 tasks were requeued because a rank was lost.",
        "The run ends after 1000 items and 1.500 s.",
    ] {
        assert!(text.contains(sentence), "`{sentence}` is not printed: {text}");
    }
    assert!(!text.contains("No decision was made"), "{text}");
}

#[test]
fn incomplete_last_line_is_reported_and_a_foreign_line_is_refused() {
    let dir = copy();
    let file = dir.path().join("rank-2.jsonl");
    let whole = fs::read(&file).unwrap();
    fs::write(&file, &whole[..whole.len() - 10]).unwrap();
    let text = explanation(&[], dir.path());
    assert!(text.contains("rank-2.jsonl: the last line is incomplete and was ignored"), "{text}");

    fs::write(&file, "{\"at\": \"noon\"}\n").unwrap();
    let output = explain(&[], dir.path());
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(error.starts_with("armature: ") && error.contains("rank-2.jsonl, line 1: "), "{error}");
}

#[test]
fn workflow_task_is_explained_with_its_waits() {
    let dir = tempfile::tempdir().unwrap();
    let events = [
        r#"{"kind":"workflow_start","name":"small","ranks":2,"tasks":2,"known":0}"#,
        r#"{"kind":"planned","by":"HEFTM-BL","ends_s":4.0,"seconds":0.01,"reason":"the run begins","kept":false}"#,
        r#"{"kind":"task_held","task":"sort","limit":"db"}"#,
        r#"{"kind":"task_began","task":"sort","attempt":0,"waits":[{"for":"input","of":"split","seconds":1.5},
            {"for":"memory","seconds":0.25}]}"#,
        r#"{"kind":"task_ended","task":"sort","seconds":2.0,"bytes":4096}"#,
        r#"{"kind":"task_ended","task":"split","seconds":2.0,"bytes":0,"failure":"torn"}"#,
        r#"{"kind":"workflow_end","tasks":1,"failed":1,"seconds":4.5}"#,
    ];
    let line = |(at, event): (usize, &&str)| {
        format!("{{\"at\":{at}.5,\"rank\":0,\"run\":0,\"event\":{}}}\n", event.replace('\n', ""))
    };
    fs::write(dir.path().join("rank-0.jsonl"), events.iter().enumerate().map(line).collect::<String>())
        .unwrap();
    let plain = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = plain(explanation(&["--task", "sort"], dir.path()));
    assert!(text.contains("Task \"sort\" waits for the limit \"db\"."), "{text}");
    assert!(text.contains("it waited 1.500 s for the output of \"split\", 250.000 ms for memory."), "{text}");
    assert!(text.contains("ended after 2.000 s") && !text.contains("torn"), "{text}");
    let text = plain(explanation(&[], dir.path()));
    assert!(text.contains("because the run begins") && text.contains("failed after 2.000 s: torn"), "{text}");
    assert!(!text.contains("\"sort\"") && !text.contains("The log does not contain the end"), "{text}");
    let output = explain(&["--task", "other"], dir.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("there is no task \"other\""));
}

#[test]
fn explain_at_a_time_shows_mapping_and_decisions() {
    let plain = |text: String| text.split_whitespace().collect::<Vec<_>>().join(" ");
    let text = plain(explanation(&["--at", "3"], &sample()));
    assert!(text.starts_with("Run 1 at 3.000 s, of ") && text.contains("Stages: load@0"), "{text}");
    assert!(text.contains("Next, at "), "{text}");
    let output = explain(&["--at", "99"], &sample());
    assert_eq!(output.status.code(), Some(2));
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(message.contains("no run lasted 99 s"), "{message}");
}

#[test]
fn workflow_is_explained_with_its_critical_path_and_at_a_time() {
    let dir = tempfile::tempdir().unwrap();
    let kept = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/golden/events/workflow.jsonl");
    for line in fs::read_to_string(kept).unwrap().lines() {
        let rank = serde_json::from_str::<serde_json::Value>(line).unwrap()["rank"].as_u64().unwrap();
        let file = dir.path().join(format!("rank-{rank}.jsonl"));
        let before = fs::read_to_string(&file).unwrap_or_default();
        fs::write(file, before + line + "\n").unwrap();
    }
    let text = explanation(&[], dir.path());
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("The critical path has ") && last.contains("which ran for 50 s of 50 s. Each"),
        "{last}"
    );
    let text = explanation(&["--at", "9"], dir.path());
    for part in ["Rank 0 ran \"", "\" waited on rank ", " held ", " for tasks (limit "] {
        assert!(text.contains(part), "`{part}` is not printed: {text}");
    }
}

/// Names in a log come from files and hosts that are not trusted. They must not start new lines or control the terminal.
#[test]
fn names_in_a_log_are_escaped() {
    let dir = copy();
    let file = dir.path().join("rank-0.jsonl");
    let text = fs::read_to_string(&file).unwrap();
    fs::write(&file, text.replace("seg", "seg\\n[ERROR rank 0] forged\\u001b[2J\\u2028\\u202e")).unwrap();
    for more in [&[][..], &["--all"], &["--at", "3"]] {
        let text = explanation(more, dir.path());
        assert!(text.contains(r"seg\n[ERROR"), "{text}");
        assert!(!text.contains(['\u{1b}', '\u{2028}', '\u{202e}']) && !text.contains("\n[ERROR"), "{text:?}");
    }
    let top = Command::new(env!("CARGO_BIN_EXE_armature"))
        .args(["top", "--once"])
        .arg(dir.path())
        .output()
        .unwrap();
    let text = String::from_utf8(top.stdout).unwrap();
    assert!(text.contains(r"seg\n[ERROR"), "{text}");
    assert!(!text.contains(['\u{1b}', '\u{2028}', '\u{202e}']) && !text.contains("\n[ERROR"), "{text:?}");
}

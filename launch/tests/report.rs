//! Tests of `armature report`, `armature events` and `armature trace` on the event log of a small run.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn run_directory() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    let events = dir.path().join("events");
    fs::create_dir(&events).unwrap();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/events")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), events.join(entry.file_name())).unwrap();
    }
    let start = r#"{"at":0.0,"rank":0,"run":0,"event":{"kind":"rank_start","schema":2,"ranks":3,"what":"the pipeline","host":"h1","program":"demo","clock_s":1e9,"kinds":["load","seg","count","out"]}}"#;
    let part = r#"{"at":9.7,"rank":0,"run":0,"event":{"kind":"activity","seconds":9.7,"work_s":6.5,"idle_s":3.0,"done":[2800,0,0,2800],"longest":{"of":0,"first":7,"count":1,"seconds":0.5}}}"#;
    fs::write(events.join("activity-0.jsonl"), format!("{start}\n{part}\n")).unwrap();
    dir
}

fn armature(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_armature")).args(args).arg(dir).output().unwrap()
}

#[track_caller]
fn printed(args: &[&str], dir: &Path) -> String {
    let output = armature(args, dir);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn report_is_written_next_to_the_events_and_its_path_is_printed() {
    let dir = run_directory();
    let output_text = printed(&["report"], dir.path());
    let page = dir.path().join("events/report.html");
    assert_eq!(output_text.trim(), page.to_str().unwrap());
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("Ranks of each stage") && text.contains("The run ends after 2800 items"), "{text}");
    let status = r#"{"state":"failed","code":3,"message":"no <fuel>","restarts":2}"#;
    fs::write(dir.path().join("events/job-status.json"), status).unwrap();
    printed(&["report", "--title", "a night"], dir.path());
    let text = fs::read_to_string(&page).unwrap();
    assert!(text.contains("<h1>a night</h1>"), "{text}");
    assert!(text.contains("Job: failed, exit code 3: no &#60;fuel&#62;, restarted 2 times."), "{text}");
}

#[test]
fn page_shows_all_attempts_of_a_run() {
    let dir = tempfile::tempdir().unwrap();
    let attempt = |number: u32, items: u32, why: &str| {
        let attempt = dir.path().join(format!("attempts/{number}"));
        fs::create_dir_all(&attempt).unwrap();
        let log = format!(
            r#"{{"at":1.5,"rank":0,"run":0,"event":{{"kind":"finish","items":{items},"seconds":1.5}}}}"#
        );
        fs::write(attempt.join("rank-0.jsonl"), log + "\n").unwrap();
        if !why.is_empty() {
            fs::write(attempt.join("why.json"), why).unwrap();
        }
        attempt
    };
    let why = r#"{"schema":1,"reason":"time limit","detail":"the job ends at 12:00","code":85,"stopped":true,"requeued":true,
        "successor":null,"stop_seconds":null,"done":326,"seconds":24.0,"ended":""}"#;
    attempt(1, 326, why);
    attempt(3, 600, "");
    printed(&["report"], dir.path());
    let text = fs::read_to_string(dir.path().join("report.html")).unwrap();
    for part in [
        "<p class=\"note\">Attempt 1: time limit: the job ends at 12:00, 326 done.</p>",
        "<h2>Attempt 1: Run</h2>",
        "The run ends after 326 items",
        "<h2>Attempt 3: Run</h2>",
        "The run ends after 600 items",
    ] {
        assert!(text.contains(part), "`{part}` is missing: {text}");
    }
    printed(&["report"], &dir.path().join("attempts/1"));
    let text = fs::read_to_string(dir.path().join("attempts/1/report.html")).unwrap();
    assert!(text.contains("after 326 items") && !text.contains("Attempt"), "{text}");
}

#[test]
fn title_is_the_command_of_the_run() {
    let dir = run_directory();
    let run = r#"{"schema":1,"command":["/opt/bin/ferret","query","--db","a b"]}"#;
    fs::write(dir.path().join("events/run.json"), run).unwrap();
    printed(&["report"], dir.path());
    let text = fs::read_to_string(dir.path().join("events/report.html")).unwrap();
    assert!(text.contains("<h1>ferret query --db a b</h1>"), "{text}");
}

#[test]
fn two_runs_are_compared_on_one_page() {
    let (before, after) = (run_directory(), run_directory());
    let output_text = printed(&["report", before.path().to_str().unwrap()], after.path());
    let page = after.path().join("events/comparison.html");
    assert_eq!(output_text.trim(), page.to_str().unwrap());
    let text = fs::read_to_string(&page).unwrap();
    let name = |dir: &tempfile::TempDir| dir.path().file_name().unwrap().to_str().unwrap().to_string();
    for part in [
        format!("{} took 1 times as long as {}", name(&after), name(&before)),
        format!("\"title\":\"{}: Ranks of each stage\"", name(&before)),
        format!("\"title\":\"{}: Ranks of each stage\"", name(&after)),
        "<th>parallel efficiency</th>".to_string(),
    ] {
        assert!(text.contains(&part), "`{part}` is missing: {text}");
    }
    // Runs with the same last part of their paths are named with their whole paths.
    let events = before.path().join("events");
    printed(&["report", events.to_str().unwrap()], &after.path().join("events"));
    let text = fs::read_to_string(&page).unwrap();
    assert!(
        text.contains(&format!(
            "{}/events took 1 times as long as {}/events",
            after.path().display(),
            before.path().display()
        )),
        "{text}"
    );
}

/// While the job runs, the page loads itself again; when the job has ended, the command writes the last page and ends.
#[test]
fn followed_page_is_renewed_until_the_job_has_ended() {
    let dir = run_directory();
    let status = dir.path().join("events/job-status.json");
    fs::write(&status, r#"{"state":"running"}"#).unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_armature"));
    let mut child = command.args(["report", "--follow"]).arg(dir.path()).spawn().unwrap();
    let page = dir.path().join("events/report.html");
    let text_when = |is_there: &dyn Fn(&str) -> bool| {
        let limit = std::time::Instant::now() + std::time::Duration::from_secs(60);
        loop {
            let text = fs::read_to_string(&page).unwrap_or_default();
            if is_there(&text) {
                return;
            }
            assert!(std::time::Instant::now() < limit, "{text}");
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
    };
    text_when(&|text| text.contains("http-equiv=\"refresh\"") && text.contains("this page is renewed every"));
    fs::write(&status, r#"{"state":"finished"}"#).unwrap();
    text_when(&|text| text.contains("Job: finished") && !text.contains("http-equiv=\"refresh\""));
    assert_eq!(child.wait().unwrap().code(), Some(0));
}

#[test]
fn figure_and_efficiencies_are_printed() {
    let dir = run_directory();
    assert!(printed(&["report", "--figure", "mapping"], dir.path()).starts_with("<svg "));
    let csv = printed(&["report", "--efficiencies", "csv"], dir.path());
    assert!(csv.lines().nth(1).is_some_and(|line| line.starts_with("run,0,9.7,1,6.5,0.67")), "{csv}");
    let missing = armature(&["report", "--figure", "memory"], dir.path());
    assert_eq!(missing.status.code(), Some(2));
    let output_text = String::from_utf8_lossy(&missing.stderr).into_owned();
    assert!(output_text.contains("the log has no data for the figure memory"), "{output_text}");
}

#[test]
fn events_are_printed_in_order_and_checked() {
    let dir = run_directory();
    let lines = printed(&["events"], dir.path());
    let times: Vec<f64> = lines
        .lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap()["at"].as_f64().unwrap())
        .collect();
    assert!(times.len() == 17 && times.is_sorted(), "{times:?}");
    let counts = printed(&["events", "--count"], dir.path());
    assert!(counts.contains("        1  activity\n") && counts.contains("        2  decision\n"), "{counts}");
    fs::write(dir.path().join("events/activity-1.jsonl"), "nonsense\n").unwrap();
    let output = armature(&["events"], dir.path());
    assert_eq!(output.status.code(), Some(2));
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output_text.contains("activity-1.jsonl, line 1: expected an event of rank 1"), "{output_text}");
}

/// A damaged status file or a missing file of a rank is reported, and a log with another version of the format is refused.
#[test]
fn report_names_missing_files_and_shows_the_rest() {
    let dir = run_directory();
    let events = dir.path().join("events");
    fs::write(events.join("job-status.json"), "{\"state\":").unwrap();
    let output = armature(&["report"], dir.path());
    let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(0), "{output_text}");
    let missing = "activity-1.jsonl, activity-2.jsonl missing in ";
    assert!(output_text.contains("job-status.json") && output_text.contains(missing), "{output_text}");
    let page = fs::read_to_string(events.join("report.html")).unwrap();
    assert!(page.contains(missing) && page.contains("Ranks of each stage"), "{page}");
    assert!(printed(&["explain"], dir.path()).contains(missing));
    assert!(printed(&["top", "--once"], dir.path()).contains("job-status.json"));

    let file = events.join("activity-0.jsonl");
    let text = fs::read_to_string(&file).unwrap().replace("\"schema\":2", "\"schema\":99");
    fs::write(&file, text).unwrap();
    for command in [&["report"][..], &["events"], &["explain"], &["trace"], &["top", "--once"]] {
        let output = armature(command, dir.path());
        let output_text = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{command:?}: {output_text}");
        assert!(
            output_text.contains("activity-0.jsonl has events of schema 99"),
            "{command:?}: {output_text}"
        );
    }
}

#[test]
fn traces_are_written_as_perfetto_and_chrome_json() {
    let dir = run_directory();
    let output_text = printed(&["trace"], dir.path());
    let bytes = fs::read(output_text.trim()).unwrap();
    // A Perfetto trace is a protobuf message whose first field, `packet`, has the number 1 and a length, so that its first byte is 0x0a.
    assert!(bytes.len() > 500 && bytes[0] == 0x0a, "{} bytes", bytes.len());
    let output_text = printed(&["trace", "--format", "chrome"], dir.path());
    let list: Vec<serde_json::Value> =
        serde_json::from_slice(&fs::read(output_text.trim()).unwrap()).unwrap();
    assert_eq!(list.iter().filter(|item| item["ph"] == "X" && item["name"] == "load 7").count(), 1);
}

#[test]
fn directory_without_events_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(armature(&["report"], dir.path()).status.code(), Some(2));
    assert!(fs::read_dir(dir.path()).unwrap().next().is_none());
}

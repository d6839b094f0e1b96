//! Tests of `armature top` on stored and on growing event logs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn manifest() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn top(args: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_armature")).arg("top").args(args).arg(dir).output().unwrap()
}

/// Prints the state of a job once, with the path of its log directory replaced by RUN.
#[track_caller]
fn once(dir: &Path) -> String {
    let output = top(&["--once"], dir);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().replace(&dir.display().to_string(), "RUN")
}

/// Directory with the stored event log of a simulated run, split into the files of the ranks.
fn kept(name: &str) -> tempfile::TempDir {
    let text =
        fs::read_to_string(manifest().join("../tests/golden/events").join(format!("{name}.jsonl"))).unwrap();
    let dir = tempfile::tempdir().unwrap();
    for line in text.lines() {
        let rank = serde_json::from_str::<serde_json::Value>(line).unwrap()["rank"].as_u64().unwrap();
        append(&dir.path().join(format!("rank-{rank}.jsonl")), line);
    }
    dir
}

fn append(file: &Path, line: &str) {
    use std::io::Write;
    let mut file = fs::OpenOptions::new().append(true).create(true).open(file).unwrap();
    writeln!(file, "{line}").unwrap();
}

/// Compares the output with the golden file `top-NAME.txt`. With `ARMATURE_GOLDEN=write`, the output replaces the content of that file.
#[track_caller]
fn is_as_kept(name: &str, text: &str) {
    let file: PathBuf = manifest().join("tests/golden").join(format!("top-{name}.txt"));
    if std::env::var("ARMATURE_GOLDEN").is_ok_and(|how| how == "write") {
        fs::write(&file, text).unwrap();
    }
    assert_eq!(fs::read_to_string(&file).unwrap_or_default(), text, "{}", file.display());
}

#[test]
fn top_output_of_stored_runs_matches_golden_files() {
    for name in ["pipeline", "farm", "doall", "workflow"] {
        is_as_kept(name, &once(kept(name).path()));
    }
}

/// Writes the event log of a farm on two ranks that runs for `parts` tenths of a second. Rank 0 computes; rank 1 waits for it, and logs nothing after
/// the first half second.
fn farm(dir: &Path, parts: u32) {
    for rank in 0..2 {
        let file = dir.join(format!("activity-{rank}.jsonl"));
        let tell = |at: f64, event: String| {
            append(&file, &format!(r#"{{"at":{at:.1},"rank":{rank},"run":0,"event":{event}}}"#));
        };
        tell(
            0.0,
            format!(
                r#"{{"kind":"rank_start","schema":2,"ranks":2,"what":"the farm","host":"h{rank}\u001b[2J","program":"demo","clock_s":1e9,"kinds":["task"]}}"#
            ),
        );
        for n in 1..=if rank == 0 { parts } else { parts.min(5) } {
            let work = if rank == 0 { 0.1 } else { 0.03 };
            let idle = 0.1 - work;
            tell(
                0.1 * f64::from(n),
                format!(
                    r#"{{"kind":"activity","seconds":0.1,"work_s":{work},"idle_s":{idle},"done":[2],"longest":{{"of":0,"first":{n},"count":1,"seconds":0.05}}}}"#
                ),
            );
        }
    }
}

#[test]
fn top_shows_the_state_of_each_rank() {
    let dir = tempfile::tempdir().unwrap();
    farm(dir.path(), 120);
    let start = r#"{"at":0.0,"rank":0,"run":0,"event":{"kind":"farm_start","farm":"rows","ranks":2,"workers":2,"chunking":"auto","balance":"live"}}"#;
    append(&dir.path().join("rank-0.jsonl"), start);
    let status = r#"{"state":"running","ranks":2,"lost":[1],"restarts":2,"process":1,"place":"elsewhere"}"#;
    fs::write(dir.path().join("job-status.json"), status).unwrap();
    let text = once(dir.path());
    is_as_kept("live", &text);
    assert!(!text.contains('\u{1b}'), "a name moves the cursor: {text}");
    assert!(text.contains("silent 12 s") && text.contains("20.00 tasks/s in the last 10 s"), "{text}");
}

/// The end can be predicted once rank 0 has logged the progress and the total of a pipeline, farm or loop.
#[test]
fn top_predicts_the_end_of_a_run_with_a_known_total() {
    let starts = [
        (r#"{"kind":"start","ranks":2,"mapping":"read@0 | sum@1","balance":"live"}"#, "items"),
        (
            r#"{"kind":"farm_start","farm":"rows","ranks":2,"workers":2,"chunking":"auto","balance":"live"}"#,
            "tasks",
        ),
        (r#"{"kind":"loop_start","name":"sor","units":9,"held":[5,4],"balance":"live"}"#, "sweeps"),
    ];
    for (start, what) in starts {
        let dir = tempfile::tempdir().unwrap();
        farm(dir.path(), 120);
        append(
            &dir.path().join("rank-0.jsonl"),
            &format!(r#"{{"at":0.0,"rank":0,"run":0,"event":{start}}}"#),
        );
        // Progress by rank 0: one item in each of the first two seconds, then 20 items in each of ten seconds.
        for second in 1..=12 {
            let done = second.min(2) + 20 * (second.max(2) - 2);
            let event = format!(r#"{{"kind":"progress","done":{done},"total":1202,"what":"{what}"}}"#);
            let line = format!(r#"{{"at":{second}.0,"rank":0,"run":0,"event":{event}}}"#);
            append(&dir.path().join("activity-0.jsonl"), &line);
        }
        let text = once(dir.path());
        let explained =
            format!("202 of 1202 {what} done · 16 % · 20.00 {what}/s in the last 10 s · about 50 s left");
        assert!(text.contains(&explained), "{text}");
    }
}

#[test]
fn top_prints_lines_until_the_run_ends() {
    let dir = tempfile::tempdir().unwrap();
    farm(dir.path(), 10);
    let write_event = |status: &str| fs::write(dir.path().join("job-status.json"), status).unwrap();
    write_event(r#"{"state":"running","ranks":2}"#);
    let child = Command::new(env!("CARGO_BIN_EXE_armature"))
        .arg("top")
        .arg(dir.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    std::thread::sleep(std::time::Duration::from_millis(300));
    // A line of the log may be read before it is completely written.
    let line = r#"{"at":2.0,"rank":0,"run":0,"event":{"kind":"finish","items":20,"seconds":2.0}}"#;
    fs::write(dir.path().join("rank-0.jsonl"), &line[..40]).unwrap();
    std::thread::sleep(std::time::Duration::from_millis(1200));
    fs::write(dir.path().join("rank-0.jsonl"), format!("{line}\n")).unwrap();
    write_event(r#"{"state":"failed","code":7,"message":"no fuel on rank 1","ranks":2}"#);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(7), "{text}");
    assert!(text.contains("20 tasks done in 2 s, the run has ended"), "{text}");
    assert!(text.ends_with("The job has ended: failed, exit code 7: no fuel on rank 1\n"), "{text}");
}

#[test]
fn top_reports_a_job_without_rank_0_as_killed() {
    let dir = tempfile::tempdir().unwrap();
    farm(dir.path(), 3);
    // The status file names the process of rank 0, which has ended.
    let mut gone = Command::new("true").spawn().unwrap();
    let process = gone.id();
    gone.wait().unwrap();
    let status =
        serde_json::json!({"state": "running", "process": process, "place": armature::job_status::place()});
    fs::write(dir.path().join("job-status.json"), status.to_string()).unwrap();
    let output = top(&[], dir.path());
    assert_eq!(output.status.code(), Some(1));
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.ends_with("The job has ended: killed: rank 0 has died without a final status\n"), "{text}");
}

#[test]
fn top_without_a_run_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    for args in [&["--once"][..], &[]] {
        for place in [dir.path().to_path_buf(), dir.path().join("none"), dir.path().join("notes.txt")] {
            let output = top(args, &place);
            assert_eq!(output.status.code(), Some(2));
            let printed = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(printed.contains("there is no run in ") && printed.contains("rank-0.jsonl"), "{printed}");
        }
    }
    fs::write(dir.path().join("rank-0.jsonl"), "nonsense\n").unwrap();
    let output = top(&["--once"], dir.path());
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("rank-0.jsonl, line 1: expected an event"));
}

/// On a terminal, the display has the size of the terminal, also after a change of the size.
#[test]
fn top_fills_the_terminal_and_follows_its_size() {
    let dir = tempfile::tempdir().unwrap();
    farm(dir.path(), 30);
    let write_status = |status: &str| fs::write(dir.path().join("job-status.json"), status).unwrap();
    write_status(r#"{"state":"running","ranks":2}"#);
    let command = format!(
        "stty cols 100 rows 30; (sleep 1.2; stty cols 40 rows 10 </dev/tty) & {} top {}",
        env!("CARGO_BIN_EXE_armature"),
        dir.path().display()
    );
    let mut script = Command::new("script");
    script.args(["-qec", &command, "/dev/null"]).stdin(Stdio::null()).stdout(Stdio::piped());
    let child = script.spawn().unwrap();
    std::thread::sleep(std::time::Duration::from_millis(2500));
    write_status(r#"{"state":"finished","ranks":2}"#);
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (frames, last) = text.split_once("\x1b[?25h").unwrap();
    let frames: Vec<&str> = frames.split("\x1b[H").skip(1).collect();
    let size = |frame: &str| {
        let plain = frame.replace("\x1b[K", "").replace("\x1b[J", "");
        let lines: Vec<&str> = plain.trim_end().lines().collect();
        (lines.iter().map(|line| line.trim_end().chars().count()).max().unwrap(), lines.len())
    };
    let sizes: Vec<(usize, usize)> = frames.iter().map(|frame| size(frame)).collect();
    let is_wide = |size: &&(usize, usize)| size.0 > 40;
    assert!(is_wide(&sizes.first().unwrap()) && !is_wide(&sizes.last().unwrap()), "{sizes:?}\n{text}");
    assert!(sizes.iter().all(|size| size.0 <= 100 && size.1 <= 30), "{sizes:?}\n{text}");
    assert!(sizes.iter().skip_while(is_wide).all(|size| size.0 <= 40 && size.1 <= 10), "{sizes:?}\n{text}");
    assert!(last.trim_end().ends_with("The job has ended: finished, exit code 0"), "{text}");
}

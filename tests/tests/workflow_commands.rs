//! `armature-workflow` and `armature workflow` as a user runs them: on threads, under mpirun and by `armature`, with tasks that fail,
//! exceed limits and are killed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use armature_tests::mpirun::Job;
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

const TASKS: &str = env!("CARGO_BIN_EXE_armature-tasks");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

/// A directory with a workflow in it.
struct Place {
    dir: TempDir,
    file: PathBuf,
}

impl Place {
    fn new(name: &str, text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        Place { dir, file }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Runs it on threads.
    fn run(&self, ranks: usize, more: &[&str]) -> Output {
        let mut command = Command::new(TASKS);
        command.arg(&self.file).args(["--ranks", &ranks.to_string()]).args(more);
        command.current_dir(self.dir.path()).output().unwrap()
    }

    /// Under mpirun.
    fn job(&self, ranks: usize, more: &[&str]) -> Job {
        let job = Job::new(TASKS, ranks).arg(&self.file).arg("--directory").arg(self.dir.path());
        more.iter().fold(job, |job, word| job.arg(*word))
    }

    fn armature(&self, arguments: &[&str]) -> Output {
        Command::new(ARMATURE).args(arguments).current_dir(self.dir.path()).output().unwrap()
    }
}

#[track_caller]
fn succeeded(output: Output) -> String {
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{complaints}");
    String::from_utf8(output.stdout).unwrap()
}

#[track_caller]
fn failed(output: Output, said: &[&str]) {
    let complaints = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{complaints}");
    for text in said {
        assert!(complaints.contains(text), "`{text}` is not said: {complaints}");
    }
}

/// Sorts two halves apart and joins them.
const DIAMOND: &str = r#"
[[task]]
id = "split"
command = "seq 1 1000 > all; head -500 all > low; tail -500 all > high; rm all; echo split it >&2"
outputs = ["low", "high"]

[[task]]
id = "low"
command = "sort -rn low > low.sorted"
inputs = ["low"]
outputs = ["low.sorted"]

[[task]]
id = "high"
command = ["sort", "-rn", "-o", "high.sorted", "high"]
inputs = ["high"]
outputs = ["high.sorted"]

[[task]]
id = "join"
command = "cat; echo $WORD; cat high.sorted low.sorted > joined"
stdin = "what it reads\n"
env = { WORD = "a word" }
inputs = ["low.sorted", "high.sorted"]
outputs = ["joined"]
"#;

fn joined() -> String {
    (1..=1000).rev().map(|n| format!("{n}\n")).collect()
}

#[test]
fn commands_give_the_same_on_threads_and_processes() {
    for ranks in [1, 3] {
        let place = Place::new("diamond.toml", DIAMOND);
        assert!(succeeded(place.run(ranks, &[])).starts_with("4 tasks are done"));
        assert_eq!(place.text("joined"), joined());
    }
    for ranks in [2, 4] {
        let place = Place::new("diamond.toml", DIAMOND);
        place.job(ranks, &[]).succeeds();
        assert_eq!(place.text("joined"), joined());
        assert!(!place.path("diamond.toml.rescue").exists(), "all is done");
    }
}

#[test]
fn what_tasks_wrote_is_shown_and_what_they_used_becomes_a_trace() {
    let place = Place::new("diamond.toml", DIAMOND);
    let file = place.file.to_str().unwrap();
    let run = ["workflow", "run", "-n", "2", "--program", TASKS, file, "--trace", "trace.json"];
    succeeded(place.armature(&run));
    assert_eq!(place.text("joined"), joined());
    let shown = |more: &[&str]| place.armature(&[&["workflow", "output", file], more].concat());
    let split = shown(&["split"]);
    assert_eq!(String::from_utf8_lossy(&split.stderr), "split it\n");
    assert_eq!(succeeded(split), "");
    assert_eq!(succeeded(shown(&["join", "--attempt", "1"])), "what it reads\na word\n");
    assert_eq!(succeeded(shown(&["join", "--attempt", "2"])), "");
    let all = succeeded(shown(&[]));
    assert_eq!(
        all,
        "split: 9 bytes to standard error in attempt 1\njoin: 21 bytes to standard output in attempt 1\n"
    );
    let error = shown(&["nonsense"]);
    assert_eq!(error.status.code(), Some(2));
    // What was measured can be planned.
    let platform = "[[processor]]\ncount = 2\nmemory = \"1 GiB\"\n";
    fs::write(place.path("two.toml"), platform).unwrap();
    let plan = succeeded(place.armature(&["plan", "workflow", "trace.json", "--platform", "two.toml"]));
    assert!(plan.starts_with("diamond.toml: 4 tasks, 4 edges"), "{plan}");
    let trace = place.text("trace.json");
    assert_eq!(trace.matches("\"memoryInBytes\": ").count(), 4, "{trace}");
    assert!(!trace.contains("\"memoryInBytes\": 0,"), "{trace}");
}

#[test]
fn faults_of_a_workflow_are_told_before_anything_starts() {
    let place = Place::new("cycle.dag", "TASK a touch a\nTASK b touch b\nEDGE a b\nEDGE b a\n");
    let output = place.armature(&["workflow", "run", "-n", "2", "--program", TASKS, "cycle.dag"]);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), complaints.lines().count()), (Some(2), 1), "{complaints}");
    let place = Place::new(
        "a.toml",
        "[[task]]\nid = \"a\"\ncommand = \"touch done\"\n[[task]]\nid = \"b\"\ncommand = \"x\"\ninputs = [\"no\"]\n",
    );
    failed(place.run(2, &[]), &["task \"b\" reads \"no\", which no task writes", "expected a file"]);
    assert!(!place.path("done").exists());
}

/// `bad` fails twice; what does not depend on it is run, and the next run does what is missing.
#[test]
fn a_rescue_file_leaves_out_what_is_done() {
    let dag = "TASK a sh -c 'echo a >> log'\nTASK bad -t 2 sh -c 'echo bad >> log; test -e good'\nTASK c sh -c 'echo c >> log'\n\
               TASK behind sh -c 'echo behind >> log'\nEDGE a bad\nEDGE bad behind\n";
    for ranks in [1, 2] {
        let place = Place::new("some.dag", dag);
        failed(
            place.run(ranks, &[]),
            &["task \"bad\", after 2 tries", "1 tasks have failed, and 1 that depend on them"],
        );
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(String::from).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(place.text("log")), ["a", "bad", "bad", "c"]);
        assert_eq!(sorted(place.text("some.dag.rescue")), ["DONE a", "DONE c"]);
        fs::write(place.path("good"), "").unwrap();
        fs::remove_file(place.path("log")).unwrap();
        succeeded(place.run(3 - ranks, &[]));
        assert_eq!(sorted(place.text("log")), ["bad", "behind"]);
        assert!(!place.path("some.dag.rescue").exists());
    }
}

#[test]
fn limits_end_tasks_and_more_memory_lets_them_through() {
    // `tail` keeps what it may have to print.
    let hold = "(head -c 60000000 /dev/zero; sleep 0.3) | tail -c 60000000 > /dev/null; echo $? > held";
    let file = format!(
        "[[task]]\nid = \"greedy\"\ncommand = \"{hold}\"\nmemory = \"20 MB\"\ntries = 3\noutputs = [\"held\"]\n"
    );
    let place = Place::new("limits.toml", &file);
    succeeded(place.run(1, &["--enforce-memory"]));
    let records = place.text("limits.toml.outputs/rank-0.jsonl");
    let attempts: Vec<bool> = records.lines().map(|line| line.contains("\"done\":true")).collect();
    assert_eq!(attempts, [false, false, true], "20, 40 and 80 MB: {records}");
    assert!(records.contains("ended at its memory limit"));
    let place =
        Place::new("time.toml", "[[task]]\nid = \"slow\"\ncommand = \"sleep 1000; true\"\ntime_limit = 1\n");
    failed(place.run(1, &[]), &["ended at its time limit, after 1.", "task \"slow\""]);
    let place = Place::new("liar.toml", "[[task]]\nid = \"liar\"\ncommand = \"true\"\noutputs = [\"f\"]\n");
    failed(place.run(1, &[]), &["it ended with exit code 0, but has not written \"f\""]);
}

/// Each of two tasks ends only beside the other one.
#[test]
fn a_rank_runs_as_many_tasks_at_a_time_as_it_has_cores() {
    let task = |name: &str, other: &str| {
        let line = format!("touch {name}; until test -e {other}; do sleep 0.01; done");
        format!("[[task]]\nid = \"{name}\"\ncommand = \"{line}\"\ntime_limit = 5\n")
    };
    let place = Place::new("both.toml", &(task("a", "b") + &task("b", "a")));
    succeeded(place.run(1, &["--cores", "2"]));
    let place = Place::new("apart.toml", &(task("a", "b") + &task("b", "a")));
    failed(place.run(1, &[]), &["task \"a\"", "ended at its time limit"]);
}

/// All processes of the job are killed in the middle; what had ended by then is not run again, and no command is left behind.
#[test]
fn a_job_that_was_killed_goes_on_where_it_was() {
    let tasks: String = (0..12).map(|n| format!("TASK t{n} sh -c 'echo t{n} >> log; sleep 0.2'\n")).collect();
    let place = Place::new("many.dag", &tasks);
    let running = place.job(2, &["--unplanned"]).start();
    let start = std::time::Instant::now();
    while place.text("many.dag.rescue").lines().count() < 4 {
        assert!(start.elapsed().as_secs() < 60, "no task ends");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for process in [running.process(0), running.process(1), running.launcher()] {
        let _ = kill_process(process, Signal::KILL);
    }
    drop(running);
    let done: Vec<String> =
        place.text("many.dag.rescue").lines().map(|line| line.replace("DONE ", "")).collect();
    assert!((4..12).contains(&done.len()), "{done:?}");
    succeeded(place.run(3, &[]));
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    place.text("log").lines().for_each(|task| *times.entry(task.into()).or_default() += 1);
    assert_eq!(times.len(), 12);
    for task in done {
        assert_eq!(times[&task], 1, "{task} was run again");
    }
}

/// A rank without a starter is no rank: it must not fail at one task after the other.
#[test]
fn the_death_of_a_starter_ends_the_job() {
    let seconds = format!("1{:07}.5", std::process::id());
    let place =
        Place::new("sleep.toml", &format!("[[task]]\nid = \"a\"\ncommand = [\"sleep\", \"{seconds}\"]\n"));
    let mut job = Command::new(TASKS);
    job.arg(&place.file).current_dir(place.dir.path()).stderr(std::process::Stdio::piped());
    let job = job.spawn().unwrap();
    let sleeper = || {
        let line = format!("sleep\0{seconds}\0");
        let all = fs::read_dir("/proc").unwrap().flatten();
        all.map(|entry| entry.path())
            .find(|path| fs::read(path.join("cmdline")).is_ok_and(|read| read == line.as_bytes()))
    };
    let start = std::time::Instant::now();
    let found = loop {
        assert!(start.elapsed().as_secs() < 60, "the task does not start");
        if let Some(found) = sleeper() {
            break found;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    let stat = fs::read_to_string(found.join("stat")).unwrap();
    let parent: i32 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap();
    kill_process(rustix::process::Pid::from_raw(parent).unwrap(), Signal::KILL).unwrap();
    failed(job.wait_with_output().unwrap(), &["the starter of commands has died"]);
    assert_eq!(sleeper(), None);
}

#[test]
fn a_real_trace_is_replayed() {
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../framework/workflow-files/tests/data/bacass-1.5.json");
    let place = Place::new("bacass.json", &fs::read_to_string(trace).unwrap());
    let toil =
        ["--toil", "--sleep", "--time-scale", "0.0001", "--memory-scale", "0.01", "--size-scale", "0.01"];
    for ranks in [1, 3] {
        assert!(succeeded(place.run(ranks, &toil)).starts_with("11 tasks are done"));
    }
    let outcome = place.job(2, &[&toil[..], &["--memory", "20MB", "--summary"]].concat()).succeeds();
    assert!(outcome.stderr.contains("planned by "), "{outcome}");
    failed(place.run(1, &[]), &["no task says what it runs: expected commands"]);
}

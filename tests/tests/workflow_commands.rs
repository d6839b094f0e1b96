//! Tests of `armature-workflow` and `armature workflow` as a user runs them: on threads, under mpirun and with `armature`, with tasks that fail,
//! exceed limits and are killed.

use std::collections::BTreeMap;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use armature_launch::Mpi;
use armature_tests::mpirun::{Job, linked};
use armature_tests::program::{failed, succeeded};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

const TASKS: &str = env!("CARGO_BIN_EXE_armature-tasks");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

struct WorkDir {
    dir: TempDir,
    file: PathBuf,
}

impl WorkDir {
    fn new(name: &str, text: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join(name);
        fs::write(&file, text).unwrap();
        WorkDir { dir, file }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    /// Returns the tasks that a rescue file lists as finished.
    fn done(&self, rescue: &str) -> Vec<String> {
        let rescue = self.text(rescue);
        rescue.lines().filter_map(|line| line.strip_prefix("DONE ")).map(String::from).collect()
    }

    fn run(&self, ranks: usize, more: &[&str]) -> Output {
        let mut command = Command::new(TASKS);
        command.arg(&self.file).args(["--ranks", &ranks.to_string()]).args(more);
        command.current_dir(self.dir.path()).output().unwrap()
    }

    fn job(&self, ranks: usize, more: &[&str]) -> Job {
        let job = Job::new(TASKS, ranks).arg(&self.file).arg("--directory").arg(self.dir.path());
        more.iter().fold(job, |job, word| job.arg(*word))
    }

    fn armature(&self, arguments: &[&str]) -> Output {
        Command::new(ARMATURE).args(arguments).current_dir(self.dir.path()).output().unwrap()
    }
}

/// Workflow that splits a list, sorts both halves and joins them.
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
fn commands_give_the_same_results_on_threads_and_processes() {
    for ranks in [1, 3] {
        let work_dir = WorkDir::new("diamond.toml", DIAMOND);
        assert!(succeeded(work_dir.run(ranks, &[])).starts_with("4 tasks are done"));
        assert_eq!(work_dir.text("joined"), joined());
    }
    for ranks in [2, 4] {
        let work_dir = WorkDir::new("diamond.toml", DIAMOND);
        work_dir.job(ranks, &[]).succeeds();
        assert_eq!(work_dir.text("joined"), joined());
        fs::remove_file(work_dir.path("joined")).unwrap();
        let outcome = work_dir.job(ranks, &[]).succeeds();
        assert!(
            outcome.stderr.contains("the workflow is finished: remove that file to run it again"),
            "{outcome}"
        );
        assert!(!work_dir.path("joined").exists());
    }
}

#[test]
fn task_output_is_shown_and_resource_usage_becomes_a_trace() {
    let work_dir = WorkDir::new("diamond.toml", DIAMOND);
    let file = work_dir.file.to_str().unwrap();
    let run = ["workflow", "run", "-n", "2", "--program", TASKS, file, "--trace", "trace.json"];
    succeeded(work_dir.armature(&run));
    assert_eq!(work_dir.text("joined"), joined());
    let shown = |more: &[&str]| work_dir.armature(&[&["workflow", "output", file], more].concat());
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
    // The trace of a run can be planned like a workflow file.
    let platform = "[[processor]]\ncount = 2\nmemory = \"1 GiB\"\n";
    fs::write(work_dir.path("two.toml"), platform).unwrap();
    let plan = succeeded(work_dir.armature(&["plan", "workflow", "trace.json", "--platform", "two.toml"]));
    assert!(plan.starts_with("diamond.toml: 4 tasks, 4 edges"), "{plan}");
    let trace = work_dir.text("trace.json");
    assert_eq!(trace.matches("\"memoryInBytes\": ").count(), 4, "{trace}");
    assert!(!trace.contains("\"memoryInBytes\": 0,"), "{trace}");
}

#[test]
fn version_names_the_mpi_library_of_the_program() {
    let output = succeeded(Command::new(TASKS).arg("--version").output().unwrap());
    let lines: Vec<&str> = output.lines().collect();
    let mpi = linked(TASKS.as_ref()).to_string();
    let [program, library] = lines[..] else { panic!("{output}") };
    assert_eq!(program, concat!("workflow ", env!("CARGO_PKG_VERSION")));
    let starts = library.starts_with(&format!("linked to {mpi} "));
    assert!(starts && library.contains(&format!(", built for {mpi} (MPI ")), "{library}");
}

#[test]
fn workflow_errors_are_reported_before_any_task_starts() {
    let work_dir = WorkDir::new("cycle.dag", "TASK a touch a\nTASK b touch b\nEDGE a b\nEDGE b a\n");
    let output = work_dir.armature(&["workflow", "run", "-n", "2", "--program", TASKS, "cycle.dag"]);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert_eq!((output.status.code(), complaints.lines().count()), (Some(2), 1), "{complaints}");
    let work_dir = WorkDir::new(
        "a.toml",
        "[[task]]\nid = \"a\"\ncommand = \"touch done\"\n[[task]]\nid = \"b\"\ncommand = \"x\"\ninputs = [\"no\"]\n",
    );
    failed(work_dir.run(2, &[]), &["task \"b\" reads \"no\", which no task writes", "expected a file"]);
    assert!(!work_dir.path("done").exists());
}

/// Task `bad` fails twice. The tasks that do not depend on it must run, and the next run must run only the tasks that are not done.
#[test]
fn tasks_done_in_the_rescue_file_are_skipped() {
    let dag = "TASK a sh -c 'echo a >> log'\nTASK bad -t 2 sh -c 'echo bad >> log; test -e good'\nTASK c sh -c 'echo c >> log'\n\
               TASK behind sh -c 'echo behind >> log'\nEDGE a bad\nEDGE bad behind\n";
    for ranks in [1, 2] {
        let work_dir = WorkDir::new("some.dag", dag);
        failed(
            work_dir.run(ranks, &[]),
            &[
                "task \"bad\" failed on rank ",
                " after 2 tries: ",
                "1 task has failed (\"bad\"), and 1 that depends on it was skipped",
            ],
        );
        let sorted = |text: String| {
            let mut lines: Vec<String> = text.lines().map(String::from).collect();
            lines.sort();
            lines
        };
        assert_eq!(sorted(work_dir.text("log")), ["a", "bad", "bad", "c"]);
        assert_eq!(sorted(work_dir.done("some.dag.rescue").join("\n")), ["a", "c"]);
        fs::write(work_dir.path("good"), "").unwrap();
        fs::remove_file(work_dir.path("log")).unwrap();
        succeeded(work_dir.run(3 - ranks, &[]));
        assert_eq!(sorted(work_dir.text("log")), ["bad", "behind"]);
        assert_eq!(sorted(work_dir.done("some.dag.rescue").join("\n")), ["a", "bad", "behind", "c"]);
    }
}

/// A restarted job gets `--skip-rescue` again. It must ignore the option, because otherwise it would repeat finished tasks.
#[test]
fn skipped_rescue_file_is_renamed_except_by_a_restart() {
    let dag = "TASK a sh -c 'echo a >> log'\n\
               TASK b sh -c 'echo b >> log; test -e b.tried || { touch b.tried; . ./die; }'\nEDGE a b\n";
    let work_dir = WorkDir::new("again.dag", dag);
    fs::write(work_dir.path("b.tried"), "").unwrap();
    succeeded(work_dir.run(1, &[]));
    let old = work_dir.text("again.dag.rescue");
    let again = work_dir.run(1, &["--skip-rescue"]);
    let messages = String::from_utf8_lossy(&again.stderr).into_owned();
    succeeded(again);
    assert!(messages.contains("all tasks run again: the earlier rescue file is now "), "{messages}");
    assert_eq!(work_dir.text("log"), "a\nb\na\nb\n");
    assert_eq!((work_dir.text("again.dag.rescue.old"), work_dir.done("again.dag.rescue").len()), (old, 2));
    // A requeued batch job and a later attempt of a run are restarts, which ignore `--skip-rescue`.
    fs::create_dir_all(work_dir.path("run/attempts/2")).unwrap();
    for (name, value) in [("SLURM_RESTART_COUNT", "1"), ("ARMATURE_RUN", "run")] {
        let mut command = Command::new(TASKS);
        command.arg("again.dag").args(["--ranks", "1", "--skip-rescue"]).env(name, value);
        succeeded(command.current_dir(work_dir.dir.path()).output().unwrap());
        assert_eq!(work_dir.text("log").lines().count(), 4, "{name}");
    }
    // Task b at first kills its rank, which is the topmost process `armature-tasks` among its ancestors.
    let die = "p=$$; while test $p -gt 1; do test $(cat /proc/$p/comm) = armature-tasks && rank=$p; \
               p=$(cut -d' ' -f4 /proc/$p/stat); done; kill -9 $rank; sleep 60\n";
    fs::write(work_dir.path("die"), die).unwrap();
    fs::remove_file(work_dir.path("b.tried")).unwrap();
    fs::remove_file(work_dir.path("log")).unwrap();
    let options = ["--restarts", "1", "--program", TASKS, "again.dag", "--skip-rescue", "--tries", "1"];
    let output = work_dir.armature(&[&["workflow", "run", "-n", "1"], &options[..]].concat());
    let messages = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(messages.contains("restart 1 of 1"), "{messages}");
    succeeded(output);
    assert_eq!(work_dir.text("log"), "a\nb\nb\n", "{messages}");
}

#[test]
fn array_runs_a_command_for_each_entry_and_writes_the_workflow() {
    let work_dir = WorkDir::new("names", "one\n\n  two words \n");
    let array = |more: &[&str]| {
        work_dir.armature(&[&["workflow", "run", "-n", "2", "--program", TASKS], more].concat())
    };
    let command = ["--", "sh", "-c", "echo \"$ARMATURE_TASK_ENTRY\" > \"out.$1\"", "sh", "{}"];
    let numbers = |range| array(&[&["numbers.toml", "--array", range], &command[..]].concat());
    assert!(succeeded(numbers("1-3")).starts_with("3 tasks are done"));
    assert_eq!(work_dir.text("out.3"), "3\n");
    fs::remove_file(work_dir.path("out.3")).unwrap();
    succeeded(numbers("1-4"));
    assert_eq!(work_dir.text("out.4"), "4\n");
    assert!(!work_dir.path("out.3").exists(), "task 3 is done");
    let lines = array(&[&["lines.toml", "--each-line=names"], &command[..]].concat());
    assert!(succeeded(lines).starts_with("2 tasks are done"));
    assert_eq!(
        (work_dir.text("out.one"), work_dir.text("out.two words")),
        ("one\n".into(), "two words\n".into())
    );
    // Other commands must be able to read the workflow file that `armature-workflow --each-line` writes.
    let plain = work_dir.armature(&["workflow", "output", "lines.toml", "two words"]);
    assert_eq!(succeeded(plain), "");
    // Another command for the same lines is refused, because its tasks would have the names of finished tasks.
    let other = ["lines.toml", "--each-line", "names", "--", "touch", "{}.touched"];
    failed(array(&other), &["task \"one\" of lines.toml was done by another command: name a new file"]);
    succeeded(array(&[&["lines.toml", "--skip-rescue"], &other[1..]].concat()));
    assert!(work_dir.path("two words.touched").exists());
    for (file, message) in
        [("names", "was not written for --array"), ("a.dag", "expected a name that ends in .toml")]
    {
        failed(array(&[file, "--array", "1-2", "--", "true"]), &[message]);
    }
    let output = Command::new(TASKS).args(["new.toml", "--array", "1-2"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}

#[test]
fn tasks_over_limits_are_ended_and_retried_with_more_memory() {
    // `tail` keeps 60 MB in memory until the end of its input, more than the declared 20 MB.
    let hold = "(head -c 60000000 /dev/zero; sleep 0.3) | tail -c 60000000 > /dev/null; echo $? > held";
    let file = format!(
        "[[task]]\nid = \"greedy\"\ncommand = \"{hold}\"\nmemory = \"20 MB\"\ntries = 3\noutputs = [\"held\"]\n"
    );
    let work_dir = WorkDir::new("limits.toml", &file);
    succeeded(work_dir.run(1, &["--enforce-memory"]));
    let records = work_dir.text("limits.toml.outputs/rank-0.jsonl");
    let attempts: Vec<bool> = records.lines().map(|line| line.contains("\"done\":true")).collect();
    assert_eq!(attempts, [false, false, true], "20, 40 and 80 MB: {records}");
    assert!(records.contains("ended at its memory limit"));
    let work_dir = WorkDir::new(
        "time.toml",
        "[[task]]\nid = \"slow\"\ncommand = \"sleep 1000; true\"\ntime_limit = 1\n",
    );
    failed(work_dir.run(1, &[]), &["ended at its time limit, after 1.", "task \"slow\""]);
    let work_dir =
        WorkDir::new("liar.toml", "[[task]]\nid = \"liar\"\ncommand = \"true\"\noutputs = [\"f\"]\n");
    failed(work_dir.run(1, &[]), &["the command ended with exit code 0, but has not written \"f\""]);
}

/// The command takes 2.5 s, and is tried with time limits of 1, 2 and 4 s.
#[test]
fn tasks_over_their_time_limit_are_retried_with_more_time() {
    let task = |tries: u32| {
        format!("[[task]]\nid = \"long\"\ncommand = \"sleep 2.5\"\ntime_limit = 1\ntries = {tries}\n")
    };
    let work_dir = WorkDir::new("more.toml", &task(3));
    let output = work_dir.run(1, &[]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    succeeded(output);
    for limit in ["2.000 s", "4.000 s"] {
        let line = format!("task long is tried again with a time limit of {limit}: ended at its time limit");
        assert!(errors.contains(&line), "{errors}");
    }
    let work_dir = WorkDir::new("less.toml", &task(2));
    failed(
        work_dir.run(1, &[]),
        &["task \"long\" failed on rank 0 after 2 tries: ended at its time limit, after 2."],
    );
}

/// Each of the two tasks ends only after the other has started.
#[test]
fn rank_runs_one_task_per_core_concurrently() {
    let task = |name: &str, other: &str| {
        let line = format!("touch {name}; until test -e {other}; do sleep 0.01; done");
        format!("[[task]]\nid = \"{name}\"\ncommand = \"{line}\"\ntime_limit = 5\n")
    };
    let work_dir = WorkDir::new("both.toml", &(task("a", "b") + &task("b", "a")));
    succeeded(work_dir.run(1, &["--cores", "2"]));
    let work_dir = WorkDir::new("apart.toml", &(task("a", "b") + &task("b", "a")));
    failed(work_dir.run(1, &[]), &["task \"a\"", "ended at its time limit"]);
}

/// The four tasks after the first one end only when all four have started. There is a plan only if the file states run times.
#[test]
fn long_tasks_with_one_parent_run_concurrently() {
    let wait = "touch begun.$ME; until [ $(ls begun.* | wc -l) -ge 4 ]; do sleep 0.02; done";
    let tasks = |known: &str| {
        let mut text = format!(
            "[[task]]\nid = \"first\"\ncommand = \"sleep 0.2; touch made\"\n{known}outputs = [\"made\"]\n"
        );
        for task in 0..4 {
            text += &format!(
                "[[task]]\nid = \"{task}\"\ncommand = \"{wait}\"\nenv = {{ ME = \"{task}\" }}\n\
                 {known}inputs = [\"made\"]\ntime_limit = 40\n"
            );
        }
        text
    };
    for (ranks, cores) in [(4, "1"), (2, "2"), (3, "2")] {
        for (known, unplanned) in [("", false), ("run_time = 0.2\n", false), ("run_time = 0.2\n", true)] {
            let work_dir = WorkDir::new("fan.toml", &tasks(known));
            let more = ["--cores", cores, "--summary", "--unplanned"];
            let output = work_dir.run(ranks, if unplanned { &more } else { &more[..3] });
            let is_planned = String::from_utf8_lossy(&output.stderr).contains("planned by");
            assert!(succeeded(output).starts_with("5 tasks are done"));
            assert_eq!(is_planned, !known.is_empty() && !unplanned);
        }
    }
}

/// A rank runs tasks at the same time only if it has memory and cores for all of them.
#[test]
fn tasks_are_admitted_by_memory_and_cores() {
    let alone = "sh -c 'mkdir lock && sleep 0.2 && rmdir lock'";
    for options in ["-m 60", "-c 2"] {
        let dag: String = (0..4).map(|n| format!("TASK t{n} {options} {alone}\n")).collect();
        let work_dir = WorkDir::new("alone.dag", &dag);
        succeeded(work_dir.run(1, &["--cores", "2", "--memory", "100MiB"]));
    }
    let touch_and_wait_for =
        |name: &str, other: &str| format!("touch {name}; until test -e {other}; do sleep 0.01; done");
    let dag = format!(
        "TASK a -m 40 timeout 5 sh -c '{}'\nTASK b -m 40 timeout 5 sh -c '{}'\n",
        touch_and_wait_for("a", "b"),
        touch_and_wait_for("b", "a")
    );
    succeeded(WorkDir::new("beside.dag", &dag).run(1, &["--cores", "2", "--memory", "100MiB"]));
    // Output files of a command take no memory of the rank, so that both tasks of 50 MiB still fit into 100 MiB.
    let dag = dag.replace("-m 40", "-m 50") + "TASK first true\nEDGE first a\nEDGE first b\n";
    succeeded(WorkDir::new("full.dag", &dag).run(1, &["--cores", "2", "--memory", "100MiB"]));
    let work_dir = WorkDir::new("large.dag", "TASK large -m 200 true\n");
    failed(work_dir.run(1, &["--memory", "100MiB"]), &["task \"large\" needs 209715200 bytes"]);
}

/// When a task is done, the text that it wrote to a pipe (option `-f`) and the files that it wrote (option `-F`) are appended to the files that the
/// options name. The output of a failed try is dropped.
#[test]
fn output_forwarded_by_a_task_is_appended_contiguously() {
    let line = |n: usize| {
        format!(
            "TASK t{n} -t 2 -f OUT=all -f LOG=sub/log -F part{n}=all sh -c 'echo {n} begins >&$OUT; echo note {n} >&$LOG; \
             echo {n} ends >&$OUT; echo file {n} > part{n}; test {n} != 3 || test -e once || {{ touch once; exit 1; }}'\n"
        )
    };
    let dag: String = (0..8).map(line).collect();
    for ranks in [1, 3] {
        let work_dir = WorkDir::new("pipes.dag", &dag);
        fs::create_dir(work_dir.path("sub")).unwrap();
        succeeded(work_dir.run(ranks, &["--cores", "2"]));
        let all = work_dir.text("all");
        let lines: Vec<&str> = all.lines().collect();
        let mut tasks: Vec<&str> = Vec::new();
        for three in lines.chunks(3) {
            let task = three[0].strip_suffix(" begins").unwrap_or_else(|| panic!("{all}"));
            assert_eq!(three[1..], [format!("{task} ends"), format!("file {task}")], "{all}");
            tasks.push(task);
        }
        tasks.sort_unstable();
        assert_eq!(tasks, ["0", "1", "2", "3", "4", "5", "6", "7"]);
        assert_eq!(work_dir.text("sub/log").lines().count(), 8);
        let remaining = fs::read_dir(work_dir.path("pipes.dag.outputs")).unwrap().flatten();
        let remaining: Vec<_> = remaining.map(|entry| entry.file_name()).collect();
        assert!(!remaining.iter().any(|name| name.to_string_lossy().starts_with("forward")), "{remaining:?}");
    }
}

/// After each try of a task, the source file of its option `-F` is removed, as by pegasus-mpi-cluster. Otherwise the output of another task or of a
/// failed try could be appended to the destination file.
#[test]
fn task_forwards_only_files_that_it_has_written_itself() {
    for (dag, all) in [
        ("TASK A -F part=all sh -c 'echo A > part'\nTASK B -F part=all true\nEDGE A B\n", "A\n"),
        (
            "TASK A -F part=all sh -c 'echo A > part'\nTASK B -F part=all sh -c 'echo B >> part'\nEDGE A B\n",
            "A\nB\n",
        ),
        ("TASK A -t 2 -F part=all sh -c 'echo A >> part; test -e flag || { touch flag; exit 1; }'\n", "A\n"),
    ] {
        let work_dir = WorkDir::new("once.dag", dag);
        succeeded(work_dir.run(1, &[]));
        assert_eq!(work_dir.text("all"), all, "{dag}");
        assert!(!work_dir.path("part").exists(), "{dag}");
    }
}

/// An attacker could place a symbolic link with the predictable name of an output file.
#[test]
fn output_files_do_not_follow_planted_symbolic_links() {
    let dag = "TASK a -f OUT=all sh -c 'echo part >&$OUT; echo text'\n";
    for name in ["rank-0.out", "rank-0.jsonl", "forward-0-0"] {
        let work_dir = WorkDir::new("a.dag", dag);
        fs::create_dir(work_dir.path("a.dag.outputs")).unwrap();
        fs::write(work_dir.path("victim"), "precious").unwrap();
        std::os::unix::fs::symlink(work_dir.path("victim"), work_dir.path("a.dag.outputs").join(name))
            .unwrap();
        match name {
            // The run replaces the symbolic link by its own file `forward-0-0`, and succeeds.
            "forward-0-0" => assert!(succeeded(work_dir.run(1, &[])).starts_with("1 task is done")),
            _ => failed(work_dir.run(1, &[]), &["is a symbolic link, expected a regular file"]),
        }
        assert_eq!(work_dir.text("victim"), "precious", "{name}");
    }
}

/// A limit of 8 KiB for the size of files acts like a full disk.
#[test]
fn task_whose_output_cannot_be_stored_fails() {
    let dag = "TASK much sh -c 'head -c 100000 /dev/zero'\nTASK little echo text\nEDGE little much\n";
    let work_dir = WorkDir::new("full.dag", dag);
    let mut command = Command::new("sh");
    let line = "trap '' XFSZ; ulimit -f 16; exec \"$0\" \"$@\"";
    command.args(["-c", line, TASKS]).arg(&work_dir.file).args(["--ranks", "1"]);
    let output = command.current_dir(work_dir.dir.path()).output().unwrap();
    failed(output, &["bytes of its output could not be written", "1 task has failed (\"much\")"]);
    assert_eq!(work_dir.done("full.dag.rescue"), ["little"]);
}

#[test]
fn failed_tasks_are_explained_and_too_many_end_the_run() {
    let dag = "TASK a -p 9 sh -c 'echo first >&2; echo \"cannot open it\" >&2; exit 3'\nTASK b -p 8 false\nTASK c -p 7 touch c.ran\n";
    let work_dir = WorkDir::new("few.dag", dag);
    let output = work_dir.run(1, &["-m", "0", "--unplanned"]);
    failed(
        output,
        &[
            "task \"a\" failed on rank 0 after 1 try: exit code 3 after ",
            " s: cannot open it\n",
            "2 tasks have failed (\"a\", \"b\")",
            "TASK` shows what a task wrote",
        ],
    );
    assert!(work_dir.path("c.ran").exists(), "there is no limit");
    for (limit, expected) in [
        ("2", "(task \"b\", after 1 try); the run ends after 2 failed tasks"),
        ("1", "(task \"a\", after 1 try)"),
    ] {
        let work_dir = WorkDir::new("few.dag", dag);
        failed(work_dir.run(1, &["-m", limit, "--unplanned"]), &[expected]);
    }
}

/// The second run must wait for the end of the first, so that no task runs twice at the same time.
#[test]
fn two_runs_of_a_workflow_do_not_share_a_rescue_file() {
    let work_dir =
        WorkDir::new("lock.dag", "TASK a sh -c 'echo x >> count; until test -e go; do sleep 0.01; done'\n");
    let start = |outputs: &str| {
        let mut command = Command::new(TASKS);
        command.arg(&work_dir.file).args(["--ranks", "1", "--outputs", outputs]);
        command.current_dir(work_dir.dir.path()).stderr(std::process::Stdio::piped()).spawn().unwrap()
    };
    let first = start("one");
    let begin = std::time::Instant::now();
    while work_dir.text("count").is_empty() {
        assert!(begin.elapsed().as_secs() < 60, "the task does not start");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let mut second = start("two");
    let mut message = String::new();
    let mut errors = BufReader::new(second.stderr.take().unwrap());
    errors.read_line(&mut message).unwrap();
    let counted = work_dir.text("count");
    fs::write(work_dir.path("go"), "").unwrap();
    succeeded(first.wait_with_output().unwrap());
    assert!(second.wait().unwrap().success());
    assert!(message.contains("waits for another run of this workflow: process "), "{message}");
    assert_eq!(counted, "x\n");
    assert!(!work_dir.path("lock.dag.rescue.lock").exists());
}

#[test]
fn task_environment_has_name_cores_rank_try_and_memory() {
    let dag = "TASK 'the task' -m 17 -c 3 -t 2 sh -c 'env | grep -E ^ARMATURE_TASK\\|^PMC_ | sort > env; test $ARMATURE_TASK_TRY = 2'\n\
               TASK plain sh -c 'echo ${ARMATURE_TASK_MEMORY-none} $PMC_MEMORY > plain'\nEDGE 'the task' plain\n";
    let work_dir = WorkDir::new("env.dag", dag);
    let mut command = Command::new(TASKS);
    command.arg(&work_dir.file).args(["--ranks", "1", "--cores", "3"]);
    // This run may itself be a task of another workflow, whose variables it inherits. Its own tasks must not get them.
    command.env("ARMATURE_TASK_MEMORY", "5").env("PMC_MEMORY", "6").current_dir(work_dir.dir.path());
    succeeded(command.output().unwrap());
    let memory = 17 << 20;
    let expected = format!(
        "ARMATURE_TASK_CPUS=3\nARMATURE_TASK_MEMORY={memory}\nARMATURE_TASK_NAME=the task\nARMATURE_TASK_RANK=0\nARMATURE_TASK_TRY=2\n\
         PMC_CPUS=3\nPMC_MEMORY=17\nPMC_RANK=0\nPMC_TASK=the task\n"
    );
    assert_eq!(work_dir.text("env"), expected);
    assert_eq!(work_dir.text("plain"), "none 0\n");
}

/// With `--recover`, `mpirun` exits with 0 even if the program has failed. The job must still fail.
#[test]
fn failed_task_fails_the_job_with_every_option() {
    use armature::job_status::{JobStatus, State};
    let work_dir = WorkDir::new("bad.dag", "TASK a true\nTASK b sh -c 'exit 3'\n");
    let recovers = linked(TASKS.as_ref()) == Mpi::OpenMpi;
    for options in [&["--recover"][..], &["--restarts", "2"], &[]] {
        if options == ["--recover"] && !recovers {
            continue;
        }
        let run = ["workflow", "run", "-n", "2", "--job-status", "status", "--program", TASKS];
        let output = work_dir.armature(&[&run, options, &["bad.dag"]].concat());
        let messages = String::from_utf8_lossy(&output.stderr).into_owned();
        failed(output, &["task \"b\" failed on rank ", " after 1 try: exit code 3 after "]);
        assert!(!messages.contains("launcher") && !messages.contains("restart"), "{messages}");
        let status = JobStatus::read(&work_dir.path("status")).unwrap().unwrap();
        assert_eq!((status.state, status.code, status.restart), (State::Failed, 1, false));
        assert_eq!(status.message, "1 of 2 tasks has failed");
        fs::remove_file(work_dir.path("bad.dag.rescue")).unwrap();
    }
}

/// All processes of the job are killed while tasks run. The next run must not repeat finished tasks, and afterwards the file named by option `-f`
/// must contain the text that each task writes to its pipe exactly once.
#[test]
fn killed_job_resumes_without_repeating_finished_tasks() {
    let task =
        |n: usize| format!("TASK t{n} -f OUT=all sh -c 'echo t{n} >> log; echo t{n} >&$OUT; sleep 0.2'\n");
    let tasks: String = (0..12).map(task).collect();
    let work_dir = WorkDir::new("many.dag", &tasks);
    let running = work_dir.job(2, &["--unplanned"]).start();
    let start = std::time::Instant::now();
    while work_dir.text("many.dag.rescue").matches("DONE ").count() < 4 {
        assert!(start.elapsed().as_secs() < 60, "no task ends");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    for process in [running.process(0), running.process(1), running.launcher()] {
        let _ = kill_process(process, Signal::KILL);
    }
    drop(running);
    let done = work_dir.done("many.dag.rescue");
    assert!((4..12).contains(&done.len()), "{done:?}");
    succeeded(work_dir.run(3, &[]));
    let mut times: BTreeMap<String, u32> = BTreeMap::new();
    work_dir.text("log").lines().for_each(|task| *times.entry(task.into()).or_default() += 1);
    assert_eq!(times.len(), 12);
    for task in done {
        assert_eq!(times[&task], 1, "{task} was run again");
    }
    let mut forwarded: Vec<String> = work_dir.text("all").lines().map(String::from).collect();
    forwarded.sort();
    assert!(forwarded.iter().eq(times.keys()), "{forwarded:?}");
}

/// The run must end at its wall time, before a batch system would end it. The next start continues the run.
#[test]
fn run_ends_at_its_wall_time_and_can_be_resumed() {
    let slow = |n: usize| format!("TASK t{n} sleep 60\n");
    let work_dir = WorkDir::new("long.dag", &format!("TASK first true\n{}", slow(0) + &slow(1)));
    let outcome = work_dir.job(2, &["--wall-time", "2s"]).start().wait();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let messages = outcome.to_string();
    assert!(
        messages.contains("the run has exceeded its time limit of 2.000 s: 1 of 3 tasks have ended"),
        "{messages}"
    );
    assert!(messages.contains("it waits for rank"), "{messages}");
    assert_eq!(work_dir.done("long.dag.rescue"), ["first"]);
    fs::write(&work_dir.file, "TASK first false\nTASK t0 true\nTASK t1 true\n").unwrap();
    assert!(succeeded(work_dir.run(2, &["--wall-time", "5m"])).contains("3 tasks are done"));
}

/// Tasks that a rank finished before its death must not run again, because their files exist. Only the launcher of Open MPI (with
/// `--enable-recovery`) lets the other ranks continue.
#[test]
fn workflow_of_commands_completes_when_a_rank_dies() {
    if linked(TASKS.as_ref()) != Mpi::OpenMpi {
        return;
    }
    // Each task depends on the task two places before it, and the last task on all.
    let task =
        |n: usize| format!("TASK t{n} -f OUT=all sh -c 'echo t{n} >> log; sleep 0.1; echo t{n} >&$OUT'\n");
    let edges: String = (2..24).map(|n| format!("EDGE t{} t{n}\n", n - 2)).collect();
    let last: String = (0..24).map(|n| format!("EDGE t{n} last\n")).collect();
    let tasks: String = (0..24).map(task).collect();
    let work_dir = WorkDir::new("mortal.dag", &format!("{tasks}TASK last true\n{edges}{last}"));
    let running = work_dir.job(3, &["--tries", "2"]).flag("--enable-recovery").start();
    let start = std::time::Instant::now();
    let done = loop {
        assert!(start.elapsed().as_secs() < 60, "no task ends");
        let done = work_dir.done("mortal.dag.rescue");
        if done.len() >= 8 {
            break done;
        }
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    // After this time, rank 0 knows of the finished tasks.
    std::thread::sleep(std::time::Duration::from_millis(50));
    running.kill_rank(1);
    let outcome = running.wait();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let log = work_dir.text("log");
    for task in done {
        assert_eq!(log.lines().filter(|line| **line == task).count(), 1, "{task} was run again\n{outcome}");
    }
    let mut forwarded: Vec<String> = work_dir.text("all").lines().map(String::from).collect();
    forwarded.sort();
    let mut expected: Vec<String> = (0..24).map(|n| format!("t{n}")).collect();
    expected.sort();
    assert_eq!(forwarded, expected, "{outcome}");
}

/// A rank whose process for starting commands is dead would fail one task after the other, so that the job must end.
#[test]
fn job_ends_when_a_command_starter_dies() {
    let seconds = format!("1{:07}.5", std::process::id());
    let work_dir =
        WorkDir::new("sleep.toml", &format!("[[task]]\nid = \"a\"\ncommand = [\"sleep\", \"{seconds}\"]\n"));
    let mut job = Command::new(TASKS);
    job.arg(&work_dir.file).current_dir(work_dir.dir.path()).stderr(std::process::Stdio::piped());
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
fn recorded_trace_is_replayed() {
    let trace =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../framework/workflow-files/tests/data/bacass-1.5.json");
    let work_dir = WorkDir::new("bacass.json", &fs::read_to_string(trace).unwrap());
    let replay_options = [
        "--synthetic-work",
        "--sleep",
        "--time-scale",
        "0.0001",
        "--memory-scale",
        "0.01",
        "--size-scale",
        "0.01",
    ];
    for ranks in [1, 3] {
        assert!(succeeded(work_dir.run(ranks, &replay_options)).starts_with("11 tasks are done"));
    }
    let outcome =
        work_dir.job(2, &[&replay_options[..], &["--memory", "20MB", "--summary"]].concat()).succeeds();
    assert!(outcome.stderr.contains("planned by "), "{outcome}");
    failed(work_dir.run(1, &[]), &["no task has a command: expected commands"]);
    let two = "[[processor]]\nname = \"a\"\nspeed = 2\nmemory = \"20 MB\"\n[[processor]]\nname = \"b\"\nmemory = \"15 MB\"\n";
    fs::write(work_dir.path("two.toml"), two).unwrap();
    let on_two = [&replay_options[..], &["--platform", "two.toml"]].concat();
    assert!(succeeded(work_dir.run(2, &on_two)).starts_with("11 tasks are done"));
    failed(work_dir.run(3, &on_two), &["the cluster has 2 processors, expected one for each of the 3 ranks"]);
}

#[test]
fn generated_workflow_is_executed() {
    let run = |shape: &str| {
        let mut command = Command::new(TASKS);
        command.args([
            "--generate",
            shape,
            "--synthetic-work",
            "--sleep",
            "--time-scale",
            "0.00001",
            "--memory-scale",
            "0.001",
        ]);
        command.args(["--size-scale", "0.001", "--ranks", "2", "--summary"]).output().unwrap()
    };
    assert!(succeeded(run("bwa:30:7")).starts_with("30 tasks are done"));
    assert_eq!(run("tree:30").status.code(), Some(2));
}

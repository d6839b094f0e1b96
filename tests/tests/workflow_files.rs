//! `armature-workflow --send-files` on threads and under mpirun: ranks share no directory, and get the files of other ranks by messages.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use armature_launch::Mpi;
use armature_tests::mpirun::{Job, Running, linked};
use armature_tests::program::{failed, succeeded};
use rustix::process::{Signal, kill_process};
use tempfile::TempDir;

const TASKS: &str = env!("CARGO_BIN_EXE_armature-tasks");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

/// Directory of rank 0 with the workflow file, and the parent of the other ranks' directories.
struct WorkDir {
    dir: TempDir,
    others: TempDir,
    file: &'static str,
}

impl WorkDir {
    fn new(file: &'static str, text: &str) -> Self {
        let work_dir =
            WorkDir { dir: tempfile::tempdir().unwrap(), others: tempfile::tempdir().unwrap(), file };
        fs::write(work_dir.path(file), text).unwrap();
        work_dir
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap_or_default()
    }

    fn run(&self, ranks: usize, more: &[&str]) -> Output {
        let mut command = Command::new(TASKS);
        command.arg(self.file).args(["--ranks", &ranks.to_string()]).args(more);
        command.current_dir(self.dir.path()).output().unwrap()
    }

    /// Runs a workflow on ranks that each have their own directory. Only that of rank 0 contains the workflow file.
    fn job(&self, ranks: usize, more: &[&str]) -> Job {
        let begin = "if [ $RANK = 0 ]; then cd \"$FIRST\"; else mkdir -p \"$OTHERS/$RANK\" && cd \"$OTHERS/$RANK\"; fi; exec \"$@\"";
        let job = Job::new(TASKS, ranks).in_shell(begin).arg(self.file).arg("--send-files");
        let job = job.env("FIRST", self.dir.path().to_str().unwrap());
        let job = job.env("OTHERS", self.others.path().to_str().unwrap());
        more.iter().fold(job, |job, word| job.arg(*word))
    }

    /// Returns the finished tasks, which the rescue file lists.
    fn done(&self) -> Vec<String> {
        let rescue = self.text(&format!("{}.rescue", self.file));
        rescue.lines().filter_map(|line| line.strip_prefix("DONE ")).map(String::from).collect()
    }

    fn wait_for(&self, tasks: usize, running: &Running) -> Vec<String> {
        let start = Instant::now();
        while self.done().len() < tasks {
            assert!(start.elapsed() < Duration::from_secs(60), "no task ends: {}", running.stderr_text());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.done()
    }

    /// Returns content and mode of the files in the directory of rank 0, without the files that belong to the run itself.
    fn files(&self) -> BTreeMap<PathBuf, (Vec<u8>, u32)> {
        let mut found = BTreeMap::new();
        add_files(self.dir.path(), Path::new(""), &mut found);
        found.retain(|path, _| !path.to_string_lossy().starts_with(self.file));
        found
    }

    fn ranks(&self) -> BTreeSet<u64> {
        let records = self.text(&format!("{}.outputs/rank-0.jsonl", self.file));
        let ranks =
            records.split("\"rank\":").skip(1).map(|rest| rest.split(['}', ',']).next().unwrap().parse());
        ranks.map(Result::unwrap).collect()
    }

    fn has_nothing_elsewhere(&self) {
        let mut found = BTreeMap::new();
        add_files(self.others.path(), Path::new(""), &mut found);
        assert!(found.is_empty(), "{:?}", found.keys());
        let remaining: Vec<_> =
            fs::read_dir(self.dir.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        assert!(
            !remaining.iter().any(|name| name.to_string_lossy().starts_with(".armature")),
            "{remaining:?}"
        );
    }
}

fn add_files(top: &Path, below: &Path, found: &mut BTreeMap<PathBuf, (Vec<u8>, u32)>) {
    for entry in fs::read_dir(top.join(below)).unwrap().flatten() {
        let name = below.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            add_files(top, &name, found);
        } else {
            let mode = entry.metadata().unwrap().permissions().mode();
            found.insert(name, (fs::read(entry.path()).unwrap(), mode & 0o777));
        }
    }
}

/// Workflow that splits a file of numbers into three parts, runs a program on each and joins the results. The last task also writes an empty file
/// with mode 750.
const THIRDS: &str = r#"
[[task]]
id = "split"
command = "mkdir -p parts && split -n l/3 numbers parts/ && echo split them >&2"
inputs = ["numbers"]
outputs = ["parts/aa", "parts/ab", "parts/ac"]

[[task]]
id = "aa"
run_time = 1
command = ["bin/tool", "parts/aa"]
inputs = ["bin/tool", "parts/aa"]
outputs = ["parts/aa.sum", "parts/aa.large"]

[[task]]
id = "ab"
run_time = 1
command = ["bin/tool", "parts/ab"]
inputs = ["bin/tool", "parts/ab"]
outputs = ["parts/ab.sum", "parts/ab.large"]

[[task]]
id = "ac"
run_time = 1
command = ["bin/tool", "parts/ac"]
inputs = ["bin/tool", "parts/ac"]
outputs = ["parts/ac.sum", "parts/ac.large"]

[[task]]
id = "join"
command = "cat parts/*.sum > sums; cat parts/*.large | cksum > check; : > nothing; chmod 750 nothing; cat sums"
inputs = ["parts/aa.sum", "parts/ab.sum", "parts/ac.sum", "parts/aa.large", "parts/ab.large", "parts/ac.large"]
outputs = ["sums", "check", "nothing"]
"#;

/// Program that writes a number of lines and a large file, which is sent in four messages. Its content depends on the argument.
const TOOL: &str = "#!/bin/sh\nsleep 0.2; wc -l < $1 > $1.sum\nyes \"$1\" | head -c 3200000 > $1.large\n";

fn thirds() -> WorkDir {
    let work_dir = WorkDir::new("thirds.toml", THIRDS);
    let numbers: String = (0..10_000).map(|n| format!("{n}\n")).collect();
    fs::write(work_dir.path("numbers"), numbers).unwrap();
    fs::create_dir(work_dir.path("bin")).unwrap();
    fs::write(work_dir.path("bin/tool"), TOOL).unwrap();
    fs::set_permissions(work_dir.path("bin/tool"), Permissions::from_mode(0o755)).unwrap();
    work_dir
}

#[test]
fn ranks_without_a_shared_directory_give_the_same_results() {
    let one = thirds();
    succeeded(one.run(1, &[]));
    let expected = one.files();
    assert_eq!(expected[Path::new("nothing")], (Vec::new(), 0o750));
    assert_eq!(expected.len(), 14);
    for ranks in [1, 3] {
        let work_dir = thirds();
        assert!(succeeded(work_dir.run(ranks, &["--send-files"])).starts_with("5 tasks are done"));
        assert_eq!(work_dir.ranks().len(), ranks);
        assert!(work_dir.files() == expected, "{:?}", work_dir.files().keys());
        work_dir.has_nothing_elsewhere();
    }
    for ranks in [2, 4] {
        let work_dir = thirds();
        let memory = ["--memory", "1MiB", "--trace", "trace.json"];
        work_dir.job(ranks, if ranks == 2 { &memory } else { &[] }).succeeds();
        assert!(ranks == 2 || work_dir.ranks().len() == 3, "three run at a time: {:?}", work_dir.ranks());
        let mut found = work_dir.files();
        assert_eq!(found.remove(Path::new("trace.json")).is_some(), ranks == 2);
        assert!(found == expected, "{:?}", found.keys());
        work_dir.has_nothing_elsewhere();
        assert_eq!(work_dir.done().len(), 5, "a restart does nothing");
        // The output of a command on another rank must also be found in the directory of rank 0.
        let show = |task: &str| {
            let mut show = Command::new(ARMATURE);
            show.args(["workflow", "output", "thirds.toml", task])
                .current_dir(work_dir.dir.path())
                .output()
                .unwrap()
        };
        assert_eq!(String::from_utf8_lossy(&show("split").stderr), "split them\n");
        assert_eq!(succeeded(show("join")), work_dir.text("sums"));
    }
}

#[test]
fn files_that_cannot_be_sent_are_reported_before_any_task_starts() {
    let task = |files: &str| format!("[[task]]\nid = \"a\"\ncommand = \"touch ran; touch f\"\n{files}\n");
    let refused = |files: &str, expected: &[&str]| {
        let work_dir = WorkDir::new("a.toml", &task(files));
        fs::create_dir(work_dir.path("d")).unwrap();
        symlink("a.toml", work_dir.path("link")).unwrap();
        symlink(work_dir.others.path(), work_dir.path("away")).unwrap();
        fs::write(work_dir.others.path().join("f"), "").unwrap();
        failed(work_dir.run(2, &["--send-files"]), expected);
        assert!(!work_dir.path("ran").exists(), "{files}");
    };
    refused("outputs = [\"../f\"]", &["expected no part \"..\""]);
    refused("outputs = [\"/f\"]", &["task \"a\" has the file \"/f\": expected a name within the directory"]);
    refused("inputs = [\"./f\"]", &["has the file \"./f\": expected a name within"]);
    refused("inputs = [\"f\"]\noutputs = [\"f\"]", &["task \"a\" reads and writes \"f\""]);
    refused("inputs = [\"no\"]", &["task \"a\" reads \"no\", which no task writes: there is no such file"]);
    refused("inputs = [\"d\"]", &["task \"a\" reads \"d\"", "is a directory, expected a regular file"]);
    refused("inputs = [\"link\"]", &["task \"a\" reads \"link\"", "symbolic link"]);
    refused("inputs = [\"away/f\"]", &["leads out of the directory"]);
    refused("", &["no task names a file that it reads or writes"]);
    let work_dir = WorkDir::new("a.dag", "TASK a -F s=d touch ran\n");
    failed(work_dir.run(2, &["--send-files"]), &["task \"a\" forwards output (-f, -F)"]);
    let work_dir = WorkDir::new("a.toml", &task("outputs = [\"f\"]"));
    fs::write(work_dir.path("a.toml.rescue"), "DONE a\n").unwrap();
    let reader = "[[task]]\nid = \"b\"\ncommand = \"cat f\"\ninputs = [\"f\"]\n";
    fs::write(work_dir.path("a.toml"), task("outputs = [\"f\"]") + reader).unwrap();
    let expected = "task \"b\" reads \"f\", which task \"a\" should have written: there is no such file";
    failed(work_dir.run(2, &["--send-files"]), &[expected]);
}

#[test]
fn attempt_without_its_declared_output_files_fails() {
    let task =
        |line: &str| format!("[[task]]\nid = \"a\"\ncommand = \"{line}\"\noutputs = [\"f\"]\ntries = 2\n");
    for ranks in [1, 2] {
        let refused = |line: &str, cause: &str| {
            let work_dir = WorkDir::new("a.toml", &task(line));
            let expected = "the command ended with exit code 0, but its output file \"f\" cannot be sent";
            failed(work_dir.run(ranks, &["--send-files"]), &[expected, cause, "after 2 tries"]);
        };
        refused("true", "there is no such file");
        refused("mkdir -p f", "is a directory");
        refused("ln -sf /etc/passwd f", "symbolic link");
        let marker = tempfile::tempdir().unwrap();
        let marker = marker.path().join("once").display().to_string();
        let work_dir = WorkDir::new(
            "a.toml",
            &task(&format!("if test -e {marker}; then echo x > f; else touch {marker}; fi")),
        );
        succeeded(work_dir.run(ranks, &["--send-files"]));
        assert_eq!(work_dir.text("f"), "x\n");
    }
}

/// A file of an earlier run must not count as the output of a task on any rank, and a command does not see it.
#[test]
fn only_files_written_by_the_attempt_are_outputs() {
    let task = |n: usize, line: &str| {
        format!("[[task]]\nid = \"make{n}\"\ncommand = \"{line}\"\noutputs = [\"out{n}\"]\n")
    };
    let tasks = |line: &str| (0..2).map(|n| task(n, &line.replace('N', &n.to_string()))).collect::<String>();
    for ranks in [1, 2] {
        let stale = |line: &str| {
            let work_dir = WorkDir::new("stale.toml", &tasks(line));
            (0..2).for_each(|n| fs::write(work_dir.path(&format!("out{n}")), "stale\n").unwrap());
            work_dir
        };
        let work_dir = stale("sleep 0.2");
        failed(work_dir.run(ranks, &["--send-files"]), &["2 tasks have failed", "there is no such file"]);
        let work_dir = stale("sleep 0.2; test -e outN || echo new > outN");
        succeeded(work_dir.run(ranks, &["--send-files"]));
        assert_eq!((work_dir.text("out0"), work_dir.text("out1")), ("new\n".into(), "new\n".into()));
    }
    // In a shared directory, without `--send-files`, a command sees the output file of an earlier run, and may find it up to date.
    let work_dir = WorkDir::new("stale.toml", &tasks("test -e outN"));
    (0..2).for_each(|n| fs::write(work_dir.path(&format!("out{n}")), "up to date\n").unwrap());
    succeeded(work_dir.run(1, &[]));
}

/// Workflow of chains: each task appends a line to the file of the task before it, and its name to the shared file `log`.
fn chains(log: &Path, chains: usize, length: usize) -> String {
    let log = log.display();
    let task = |chain: usize, at: usize| {
        let (read, inputs) = match at {
            0 => ("true".to_string(), String::new()),
            _ => (format!("cat f{chain}-{}", at - 1), format!("inputs = [\"f{chain}-{}\"]", at - 1)),
        };
        format!(
            "[[task]]\nid = \"t{chain}-{at}\"\ncommand = \"({read}; echo {chain} {at}) > f{chain}-{at}; sleep 0.1; \
             echo t{chain}-{at} >> {log}\"\noutputs = [\"f{chain}-{at}\"]\n{inputs}\n"
        )
    };
    (0..chains).flat_map(|chain| (0..length).map(move |at| task(chain, at))).collect()
}

fn check_chains(work_dir: &WorkDir, chains: usize, length: usize) {
    for chain in 0..chains {
        let expected: String = (0..length).map(|at| format!("{chain} {at}\n")).collect();
        assert_eq!(work_dir.text(&format!("f{chain}-{}", length - 1)), expected);
    }
}

/// Files of the killed ranks are also on the disk of rank 0, so that the next job continues with them.
#[test]
fn killed_job_resumes_with_the_files_on_rank_0() {
    let log = tempfile::NamedTempFile::new().unwrap();
    let work_dir = WorkDir::new("chains.toml", &chains(log.path(), 3, 6));
    let running = work_dir.job(3, &["--unplanned"]).start();
    work_dir.wait_for(5, &running);
    for process in [running.process(0), running.process(1), running.process(2), running.launcher()] {
        let _ = kill_process(process, Signal::KILL);
    }
    drop(running);
    let done = work_dir.done();
    assert!((5..18).contains(&done.len()), "{done:?}");
    work_dir.job(2, &[]).succeeds();
    check_chains(&work_dir, 3, 6);
    let ran = fs::read_to_string(log.path()).unwrap();
    for task in done {
        assert_eq!(ran.lines().filter(|line| **line == task).count(), 1, "{task} was run again");
    }
}

/// Only Open MPI's launcher (with `--enable-recovery`) keeps the other ranks after a death.
#[test]
fn no_file_is_lost_when_a_rank_dies() {
    if linked(TASKS.as_ref()) != Mpi::OpenMpi {
        return;
    }
    let log = tempfile::NamedTempFile::new().unwrap();
    let work_dir = WorkDir::new("chains.toml", &chains(log.path(), 4, 6));
    let running = work_dir.job(4, &["--tries", "2", "--unplanned"]).flag("--enable-recovery").start();
    let done = work_dir.wait_for(8, &running);
    // After this time, rank 0 knows of the finished tasks.
    std::thread::sleep(Duration::from_millis(50));
    running.kill_rank(1);
    let outcome = running.wait();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    check_chains(&work_dir, 4, 6);
    let ran = fs::read_to_string(log.path()).unwrap();
    for task in done {
        assert_eq!(ran.lines().filter(|line| **line == task).count(), 1, "{task} was run again\n{outcome}");
    }
}

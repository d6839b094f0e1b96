//! Jobs that a signal asks to stop: they must exit with 85, and the same command must continue them without doing anything twice.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use armature::job_status::{JobStatus, STOPPED, State};
use armature_tests::mpirun::{Job, JobResult};
use rustix::process::{Pid, Signal, kill_process};

const CASES: &str = env!("CARGO_BIN_EXE_armature-cases");
const SQUARES: &str = env!("CARGO_BIN_EXE_armature-squares");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

/// Checks that a job was stopped by a signal; only rank 0 may print a message about it.
#[track_caller]
fn was_stopped(outcome: &JobResult, by: &str) {
    assert_eq!(outcome.status.code(), Some(STOPPED.into()), "{outcome}");
    assert!(!outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert_eq!(outcome.stderr.matches(&format!("armature: stopped by {by} after ")).count(), 1, "{outcome}");
    assert!(!outcome.stderr.contains("restart 1"), "{outcome}");
}

fn lines(log: &Path, what: &str) -> Vec<String> {
    let log = std::fs::read_to_string(log).unwrap_or_default();
    log.lines().filter(|line| line.starts_with(what)).map(str::to_string).collect()
}

/// Checks that the log has `count` different lines that begin with `what`, each once.
#[track_caller]
fn each_once(log: &Path, what: &str, count: usize) {
    let lines = lines(log, what);
    assert_eq!(lines.iter().collect::<BTreeSet<_>>().len(), count);
    assert_eq!(lines.len(), count, "something was computed twice");
}

/// The signal goes to one rank other than 0; it must stop the farm on all ranks.
#[test]
fn farm_under_mpirun_stops_and_continues_from_its_journal() {
    const TASKS: usize = 1_000;
    for case in ["farm-journal-stream", "farm-journal-iterations"] {
        let dir = tempfile::tempdir().expect("a directory");
        let job =
            || Job::new(CASES, 3).arg(case).env("ARMATURE_TEST_DIR", dir.path().to_str().expect("a text"));
        let running = job().start();
        running.wait_for("farm has ");
        kill_process(running.process(1), Signal::USR1).expect("rank 1 can be signalled");
        let outcome = running.wait();
        was_stopped(&outcome, "SIGUSR1");
        assert!(outcome.stderr.contains("; the same command continues"), "{outcome}");
        let done = lines(&dir.path().join("computed"), "").len();
        assert!(done > 0 && done < TASKS, "{outcome}");
        let outcome = job().env("ARMATURE_TEST_TASKS", &TASKS.to_string()).run();
        assert!(
            outcome.status.success() && outcome.stdout.contains(&format!("farm complete, {done} known")),
            "{outcome}"
        );
        each_once(&dir.path().join("computed"), "", TASKS);
    }
}

#[test]
fn supervised_job_stops_with_its_status_and_is_not_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let status = dir.path().join("status");
    let job = || {
        let options = ["run", "--restarts", "3", "--job-status", status.to_str().expect("a text")];
        let job = Job::new(SQUARES, 3).through([&[ARMATURE][..], &options].concat());
        job.env("ARMATURE_BATCH", "1").arg(dir.path()).arg("300").arg("10")
    };
    let running = job().start();
    running.wait_for("kept 20\n");
    // All ranks get the signal at the same time, as from `scancel --signal=TERM`.
    for rank in 0..3 {
        kill_process(running.process(rank), Signal::TERM).expect("the rank can be signalled");
    }
    was_stopped(&running.wait(), "SIGTERM");
    let found = JobStatus::read(&status).expect("readable").expect("a status");
    assert_eq!((found.state, found.code), (State::Stopped, STOPPED));
    assert!(
        found.kept.contains("items were done") && found.kept.starts_with("stopped by SIGTERM"),
        "{found:?}"
    );
    let outcome = job().run();
    assert!(outcome.status.success() && outcome.stdout.contains("all 300 squares are right"), "{outcome}");
    each_once(&dir.path().join("log"), "computed ", 300);
}

/// Starts the program `armature-squares` on threads, and waits until a task has begun.
fn threads(dir: &Path, milliseconds: &str) -> Child {
    let mut command = Command::new(SQUARES);
    command.args([dir.to_str().expect("a text"), "300", milliseconds]);
    command.env("ARMATURE_RANKS", "3").env("ARMATURE_BATCH", "1").stdout(Stdio::null()).stderr(Stdio::null());
    let child = command.spawn().expect("the program can be started");
    let start = Instant::now();
    while !dir.join("journal").exists() {
        assert!(start.elapsed() < Duration::from_secs(60), "the job does not start");
        std::thread::sleep(Duration::from_millis(20));
    }
    std::thread::sleep(Duration::from_millis(500));
    child
}

#[test]
fn thread_ranks_stop_and_continue() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = threads(dir.path(), "20");
    kill_process(Pid::from_child(&child), Signal::USR2).expect("the process can be signalled");
    assert_eq!(child.wait().expect("it ends").code(), Some(STOPPED.into()));
    assert!(threads(dir.path(), "1").wait().expect("it ends").success());
    each_once(&dir.path().join("log"), "computed ", 300);
}

#[test]
fn second_signal_ends_the_process_at_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut child = threads(dir.path(), "60000");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the process can be signalled");
    std::thread::sleep(Duration::from_millis(1_500));
    assert!(child.try_wait().expect("it can be waited for").is_none(), "the tasks in hand are waited for");
    kill_process(Pid::from_child(&child), Signal::TERM).expect("the process can be signalled");
    assert_eq!(child.wait().expect("it ends").signal(), Some(Signal::TERM.as_raw()));
}

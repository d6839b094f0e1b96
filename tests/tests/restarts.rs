//! `armature run` restarts jobs that die, which continue from the file with their results. The exit code must be right for every exit code of the
//! launcher, and no process may be left behind.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use armature::job_status::{JobStatus, State};
use armature_launch::Mpi;
use armature_tests::mpirun::{Job, JobResult, Running};
use rustix::process::{Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-squares");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");
const RANKS: usize = 3;

/// Runs `armature run OPTIONS armature-squares DIR TASKS 10 WHAT`, which squares TASKS numbers in 10 ms each; WHAT is empty or names a fault.
fn squares(dir: &Path, options: &[&str], tasks: u64, what: &str) -> Job {
    let job = Job::new(PROGRAM, RANKS).through([&[ARMATURE, "run"], options].concat());
    job.env("ARMATURE_BATCH", "1").arg(dir).arg(tasks.to_string()).arg("10").arg(what)
}

#[track_caller]
fn assert_exit(outcome: &JobResult, code: i32, expected_texts: &[&str]) {
    assert_eq!(outcome.status.code(), Some(code), "{outcome}");
    assert!(!outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    for text in expected_texts {
        assert!(outcome.stderr.contains(text), "`{text}` is not printed\n{outcome}");
    }
}

/// Checks that each task was computed, and none whose result was kept at an earlier start. Returns the number of kept results at the starts.
#[track_caller]
fn assert_journalled_tasks_not_recomputed(dir: &Path, tasks: u64) -> usize {
    let log = std::fs::read_to_string(dir.join("log")).expect("a log");
    let (mut known, mut computed) = (BTreeSet::new(), BTreeSet::new());
    for line in log.lines() {
        let (what, task) = line.split_once(' ').expect("two words");
        let task: u64 = task.parse().expect("a number");
        match what {
            "known" => known.insert(task),
            "computed" => {
                assert!(!known.contains(&task), "{task} was computed again");
                computed.insert(task)
            }
            _ => panic!("{line}"),
        };
    }
    assert_eq!(computed, (0..tasks).collect());
    known.len()
}

#[track_caller]
fn wait_for_restart(running: &Running, number: usize) {
    let (start, text) = (Instant::now(), format!("restart {number} of "));
    while !running.stderr_text().contains(&text) {
        assert!(
            start.elapsed() < Duration::from_secs(60),
            "`{text}` is not printed: {}",
            running.stderr_text()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn job_that_dies_twice_resumes_from_its_journal() {
    let dir = tempfile::tempdir().expect("a directory");
    let events = dir.path().join("events");
    let job = squares(dir.path(), &["--restarts", "3"], 300, "");
    let running = job.env("ARMATURE_EVENTS", events.to_str().expect("a text")).start();
    running.wait_for("kept 60\n");
    running.kill_rank(1);
    wait_for_restart(&running, 1);
    running.wait_for("kept 150\n");
    running.kill_rank(0);
    let outcome = running.wait();
    assert_exit(&outcome, 0, &["armature: the job has died after", "restart 1 of 3", "restart 2 of 3"]);
    assert!(outcome.stdout.contains("all 300 squares are right"), "{outcome}");
    assert!(assert_journalled_tasks_not_recomputed(dir.path(), 300) >= 150);
    // Each start of the job has a directory of events. Commands that read the events show the newest.
    for restarts in 0..3 {
        let attempt = events.join(format!("attempts/{}", restarts + 1));
        let status = JobStatus::read(&attempt.join("job-status.json")).expect("readable").expect("a status");
        assert_eq!(
            (status.restarts, status.state == State::Finished),
            (restarts, restarts == 2),
            "{status:?}"
        );
        assert!(attempt.join("rank-0.jsonl").is_file() && attempt.join("rank-2.jsonl").is_file());
        assert_eq!(armature::observe::newest_attempt(&events) == attempt, restarts == 2);
    }
    let report = Command::new(ARMATURE).arg("explain").arg(&events).output().expect("armature starts");
    assert!(report.status.success(), "{}", String::from_utf8_lossy(&report.stderr));
}

/// Elements of a job array share a status file or a directory of events if the script of the array names one for all.
#[test]
fn job_that_shares_status_or_events_with_a_running_job_is_refused() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = |name: &str| dir.path().join(name).to_str().expect("a text").to_string();
    let start = |number: u32, status: &str, tasks| {
        let own = path(&format!("own-{number}"));
        std::fs::create_dir(&own).expect("a directory");
        let job = squares(own.as_ref(), &["--job-status", &path(status)], tasks, "");
        job.env("ARMATURE_EVENTS", &path("events")).start()
    };
    let long = start(0, "status", 30_000);
    long.wait_for("kept 5\n");
    let (shares_status, shares_events) = (start(1, "status", 20), start(2, "another", 20));
    let outcome = shares_status.wait();
    assert_exit(&outcome, 1, &[&path("status"), "(armature", "uses it", "Each job needs a separate file"]);
    let outcome = shares_events.wait();
    assert_exit(&outcome, 1, &[&path("events"), "(armature-square", "Each job needs a separate directory"]);
    let status = || JobStatus::read(path("status").as_ref()).expect("readable").expect("a status");
    assert!(status().state == State::Running && !dir.path().join("events/attempts/2").exists());
    // Writes the status of another job without taking the lock. The running job must not end because of it.
    let mut foreign = JobStatus::default();
    foreign.state = State::Finished;
    foreign.started_by = "process 1 on elsewhere".into();
    let start = Instant::now();
    while !long.stderr_text().contains("started by process 1 on elsewhere, and is ignored") {
        assert!(start.elapsed() < Duration::from_secs(60), "{}", long.stderr_text());
        foreign.write(path("status").as_ref()).expect("written");
        std::thread::sleep(Duration::from_millis(20));
    }
    kill_process(long.launcher(), Signal::TERM).expect("armature can be signalled");
    let outcome = long.wait();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
}

#[test]
fn job_that_dies_without_restarts_fails() {
    let dir = tempfile::tempdir().expect("a directory");
    let job_status = dir.path().join("job-status");
    let options = ["--job-status", job_status.to_str().expect("a text")];
    let running = squares(dir.path(), &options, 3000, "").start();
    running.wait_for("kept 5\n");
    running.kill_rank(2);
    let outcome = running.wait();
    // Exit code of the launcher after the death of a rank: 137 from Open MPI; 9 from MPICH, or 15 if MPICH's clean-up ends a rank by this signal.
    assert!(matches!(outcome.status.code(), Some(9 | 15 | 137)), "{outcome}");
    assert_exit(&outcome, outcome.status.code().unwrap_or(0), &["the job has died after"]);
    let job_status = JobStatus::read(&job_status).expect("a job status").expect("a job status");
    // The status is `Failed` if another rank had time to report the missing rank, otherwise still `Running`.
    let is_missed = job_status.state == State::Failed && job_status.restart;
    assert!(is_missed || job_status.state == State::Running, "{job_status:?}");
}

#[test]
fn failed_program_is_not_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let outcome = squares(dir.path(), &["--restarts", "3"], 20, "fail").run();
    assert_exit(&outcome, 1, &["no square for the last one"]);
    assert!(!outcome.stderr.contains("restart"), "{outcome}");
}

#[test]
fn job_that_dies_without_progress_is_no_longer_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let running = squares(dir.path(), &["--restarts", "9"], 30_000, "").start();
    let start = Instant::now();
    // Rank 0 is killed after each restart before another result is kept, so that restarts make no progress and are given up.
    running.wait_for("kept 1\n");
    running.kill_rank(0);
    let mut restarts = 0;
    while restarts < 9 && !running.stderr_text().contains("does not help") {
        assert!(start.elapsed() < Duration::from_secs(90), "{}", running.stderr_text());
        if running.stderr_text().contains(&format!("restart {} of 9", restarts + 1)) {
            restarts += 1;
            let known = std::fs::read_to_string(dir.path().join("log")).unwrap_or_default().len();
            while std::fs::read_to_string(dir.path().join("log")).unwrap_or_default().len() == known {
                std::thread::sleep(Duration::from_millis(5));
            }
            running.kill_rank(0);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let outcome = running.wait();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert!(outcome.stderr.contains("within 10 s without completing another task"), "{outcome}");
    assert!(restarts < 9, "{outcome}");
}

#[test]
fn job_ended_by_a_signal_is_not_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let running = squares(dir.path(), &["--restarts", "3"], 30_000, "").start();
    running.wait_for("kept 5\n");
    kill_process(running.launcher(), Signal::TERM).expect("armature can be signalled");
    let outcome = running.wait();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert!(!outcome.stderr.contains("restart 1"), "{outcome}");
    assert!(outcome.took < Duration::from_secs(45), "{outcome}");
}

#[test]
fn time_limit_includes_restarts() {
    let dir = tempfile::tempdir().expect("a directory");
    let running = squares(dir.path(), &["--restarts", "3", "--timeout", "8s"], 30_000, "").start();
    running.wait_for("kept 40\n");
    running.kill_rank(1);
    wait_for_restart(&running, 1);
    let outcome = running.wait();
    assert_exit(&outcome, 124, &["has not ended within its time limit"]);
    assert!(outcome.took < Duration::from_secs(30), "{outcome}");
}

/// A rank hangs after the end of the job, which must neither fail nor leave the rank behind.
#[test]
fn hanging_launcher_is_ended_after_the_job_finishes() {
    let dir = tempfile::tempdir().expect("a directory");
    let outcome = squares(dir.path(), &["--restarts", "1"], 20, "linger").run();
    assert_exit(&outcome, 0, &[]);
    assert!(outcome.stdout.contains("all 20 squares are right"), "{outcome}");
    assert!(outcome.took < Duration::from_secs(40), "{outcome}");
}

fn on_open_mpi(dir: &Path) -> bool {
    squares(dir, &[], 1, "").mpi() == Mpi::OpenMpi
}

/// With `--recover`, mpirun continues without rank 0 and exits with 0, while the other ranks wait for rank 0. `armature run` must notice this and
/// restart the job.
#[test]
fn dead_rank_0_is_detected_with_recovery_and_the_job_restarted() {
    let dir = tempfile::tempdir().expect("a directory");
    let running = squares(dir.path(), &["--recover", "--restarts", "2"], 200, "");
    if !on_open_mpi(dir.path()) {
        assert_exit(&running.run(), 2, &["--recover needs Open MPI"]);
        return;
    }
    let running = running.start();
    running.wait_for("kept 50\n");
    running.kill_rank(0);
    let outcome = running.wait();
    assert_exit(&outcome, 0, &["restart 1 of 2"]);
    assert!(outcome.stdout.contains("all 200 squares are right"), "{outcome}");
    assert!(assert_journalled_tasks_not_recomputed(dir.path(), 200) >= 50);
}

/// With `--recover`, mpirun exits with 0 although the job has failed. `armature run` must exit with 1.
#[test]
fn exit_code_is_correct_with_recovery() {
    let dir = tempfile::tempdir().expect("a directory");
    if !on_open_mpi(dir.path()) {
        return;
    }
    let start = Instant::now();
    let outcome = squares(dir.path(), &["--recover", "--restarts", "2"], 20, "fail").run();
    assert_exit(&outcome, 1, &["no square for the last one"]);
    assert!(!outcome.stderr.contains("restart 1"), "{outcome}");
    assert!(start.elapsed() < Duration::from_secs(40), "{outcome}");
}

#[test]
fn program_that_leaves_no_job_status_fails() {
    let job = Job::new(PROGRAM, RANKS).through([ARMATURE, "run", "--restarts", "2"]);
    // An argument is missing, so that the program ends before its ranks start.
    let outcome = job.arg("only one argument").run();
    assert_exit(&outcome, 1, &["the job has left no job status"]);
}

#[test]
fn top_follows_a_job_until_it_ends() {
    for (is_killed, tasks, how) in
        [(false, 300, "finished, exit code 0"), (true, 100_000, "failed, exit code ")]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let events = dir.path().join("events");
        let status = dir.path().join("status");
        let job = squares(dir.path(), &["--job-status", status.to_str().expect("a text")], tasks, "");
        let running = job.env("ARMATURE_EVENTS", events.to_str().expect("a text")).start();
        running.wait_for("kept 60\n");
        let top = Command::new(ARMATURE)
            .args(["top".as_ref(), events.as_os_str()])
            .stdout(Stdio::piped())
            .spawn()
            .expect("armature top starts");
        if is_killed {
            std::thread::sleep(Duration::from_millis(1_500));
            running.kill_rank(0);
        }
        let outcome = running.wait();
        let top = top.wait_with_output().expect("it ends");
        let text = String::from_utf8_lossy(&top.stdout);
        // The exit code for a killed rank depends on the launcher, so that `armature top` must exit with that of the job.
        let code = outcome.status.code().expect("a code");
        let end =
            format!("The job has ended: {how}{}", if is_killed { code.to_string() } else { "\n".into() });
        // `armature top` prints the number of finished items. After it, the line shows the duration
        // of a run that has finished, and the share or the rate of a run that was killed.
        let items = if is_killed { " items done, " } else { " items done" };
        assert!(text.contains(items) && text.contains(&end), "{text}{outcome}");
        assert!(top.status.code() == Some(code) && is_killed == (code != 0), "{text}{outcome}");
    }
}

/// The events of the ranks are in the directory of the attempt (the start of the job), where every command must find them.
#[test]
fn run_directory_has_the_events_and_the_status_of_the_ranks() {
    let dir = tempfile::tempdir().expect("a directory");
    let armature = |args: &[&str]| {
        let mut command = Command::new(ARMATURE);
        command.args(args).current_dir(dir.path()).env_remove("ARMATURE_EVENTS").output().expect("armature")
    };
    for attempt in ["1", "2"] {
        // Each start of the job has its own results, because those of the first would leave no task to the second.
        let kept = format!("kept-{attempt}");
        std::fs::create_dir(dir.path().join(&kept)).expect("a directory");
        let name = if attempt == "1" { "squares" } else { "squares-1" };
        let run = armature(&["run", "--run", name, "-n", "3", PROGRAM, &kept, "20", "10", ""]);
        assert!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
        let directory = dir.path().join("armature-runs/squares-1/attempts").join(attempt);
        for file in ["rank-0.jsonl", "rank-2.jsonl", "why.json"] {
            assert!(directory.join(file).exists(), "{attempt}: {file}");
        }
        let status =
            JobStatus::read(&directory.join("job-status.json")).expect("a status").expect("a status");
        assert_eq!((status.state, status.done), (State::Finished, 20));
    }
    let status = armature(&["status"]);
    let printed = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(
        status.status.success() && printed.contains("20 done") && printed.contains("3, none lost"),
        "{printed}"
    );
    for args in [&["explain", "squares@1"][..], &["report", "last"], &["top", "--once", "squares-1"]] {
        let output = armature(args);
        assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Checks the output of `armature-stream`: after a start, no item may be processed again that was in a snapshot at the start before. Returns the
/// numbers of items in the snapshots at the starts.
#[track_caller]
fn assert_stream_is_right(dir: &Path, items: u64) -> Vec<u64> {
    let mut sum = 0;
    let expected: Vec<String> = (0..items)
        .map(|item| {
            sum += item;
            format!("{item} {sum}\n")
        })
        .collect();
    assert_eq!(std::fs::read_to_string(dir.join("out")).expect("an output"), expected.concat());
    let log = std::fs::read_to_string(dir.join("log")).expect("a log");
    let mut firsts = Vec::new();
    for line in log.lines() {
        let (what, number) = line.split_once(' ').expect("two words");
        let number: u64 = number.parse().expect("a number");
        match (what, firsts.last()) {
            ("first", last) => {
                assert!(
                    last.is_none_or(|&last| last <= number),
                    "a snapshot was lost: {number} after {firsts:?}"
                );
                firsts.push(number);
            }
            (_, first) => assert!(first.is_some_and(|&first| first <= number), "{number} was computed again"),
        }
    }
    firsts
}

/// Ranks are killed at random moments, also while snapshots are written, until the job has died `kills` times.
#[test]
fn pipeline_killed_at_random_moments_writes_each_item_once() {
    let kills: u64 =
        std::env::var("ARMATURE_TEST_KILLS").map_or(12, |kills| kills.parse().expect("a number"));
    let items = 400 + 120 * kills;
    let dir = tempfile::tempdir().expect("a directory");
    let program = env!("CARGO_BIN_EXE_armature-stream");
    let restarts = (2 * kills).to_string();
    let job = Job::new(program, RANKS).through([ARMATURE, "run", "--restarts", &restarts]);
    let job = job.limit(Duration::from_secs(30 + 10 * kills));
    let running = job.arg(dir.path()).arg(items.to_string()).arg("5000").start();
    let starts =
        || std::fs::read_to_string(dir.path().join("log")).map_or(0, |log| log.matches("first").count());
    let mut random = armature_apps::random::Random::new(kills);
    for killed in 1..=kills as usize {
        let start = Instant::now();
        while starts() < killed {
            assert!(
                start.elapsed() < Duration::from_secs(60),
                "start {killed} is missing: {}",
                running.stderr_text()
            );
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis((60 + random.below(300)).into()));
        running.kill_rank(random.below(RANKS as u32) as usize);
    }
    let outcome = running.wait();
    assert_exit(&outcome, 0, &["pipeline numbers: resumes after "]);
    let firsts = assert_stream_is_right(dir.path(), items);
    assert!(firsts.len() > kills as usize && *firsts.last().expect("a start") > items / 4, "{firsts:?}");
}

/// The file system of the snapshots, which is full for a while, is mounted in a mount namespace of this job.
#[test]
fn full_disk_under_the_snapshots_does_not_end_the_pipeline() {
    const ITEMS: u64 = 600;
    let dir = tempfile::tempdir().expect("a directory");
    let kept = dir.path().join("kept");
    std::fs::create_dir(&kept).expect("a new directory");
    let script = r#"
        kept=$1
        shift
        mount -t tmpfs -o size=256k none "$kept"
        (
            until [ -e "$kept/manifest" ]; do sleep 0.02; done
            head -c 1M /dev/zero >"$kept/filler"
            sleep 0.5
            rm "$kept/filler"
        ) &
        exec "$@"
    "#;
    let in_namespace = ["unshare", "--map-root-user", "--mount", "bash", "-c", script, "bash"];
    let in_namespace = in_namespace.map(std::ffi::OsString::from).into_iter();
    let launcher = [kept.into_os_string(), ARMATURE.into(), "run".into()];
    let job = Job::new(env!("CARGO_BIN_EXE_armature-stream"), RANKS).through(in_namespace.chain(launcher));
    let outcome = job.arg(dir.path()).arg(ITEMS.to_string()).arg("5000").run();
    assert_exit(
        &outcome,
        0,
        &["No space left on device", "the run continues, and the snapshot before this one stays valid"],
    );
    assert_eq!(assert_stream_is_right(dir.path(), ITEMS), [0]);
}

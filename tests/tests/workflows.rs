//! Workflows (graphs of tasks) whose tasks are commands, or whose ranks are killed.

use std::time::{Duration, Instant};

use armature_launch::Mpi;
use armature_tests::check::{noise, setting};
use armature_tests::mpirun::{Job, linked};
use rustix::process::{Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");
const ARMATURE: &str = env!("CARGO_BIN_EXE_armature-run");

#[test]
fn commands_read_each_others_files_and_keep_their_limits() {
    for ranks in 1..=3 {
        let directory = tempfile::tempdir().unwrap();
        let job = Job::new(PROGRAM, ranks).arg("workflow-commands").limit(Duration::from_secs(60));
        let job = job.env("ARMATURE_TEST_DIRECTORY", directory.path().to_str().unwrap());
        job.passes(&["workflow-commands"]);
    }
}

#[test]
fn workflow_is_replanned_when_a_rank_is_slower_than_planned() {
    for ranks in 2..=3 {
        let job = Job::new(PROGRAM, ranks).arg("workflow-slow-rank").limit(Duration::from_secs(60));
        job.passes(&["workflow-slow-rank"]);
    }
}

fn deaths(ranks: usize) -> Job {
    Job::new(PROGRAM, ranks).arg("workflow-deaths").limit(Duration::from_secs(60))
}

/// Only Open MPI's launcher (with `--enable-recovery`) keeps the other ranks after a death.
#[test]
fn workflow_completes_when_a_rank_dies() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    for seed in 0..2 {
        let victim = 1 + noise(11, seed) as usize % 2;
        let running = deaths(3).flag("--enable-recovery").start();
        running.wait_for("workflow under way");
        std::thread::sleep(Duration::from_millis(noise(12, seed) % 300));
        running.kill_rank(victim);
        let outcome = running.wait();
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
        let line = format!("workflow complete, lost [{victim}], known 0");
        assert!(outcome.stdout.contains(&line), "`{line}` was not printed\n{outcome}");
    }
}

/// Size of a value in bytes, and a number of tasks for which a run takes a second or more.
const VALUES: [(usize, usize); 4] = [(100_000, 400), (10_000_000, 40), (1_000, 1_500), (8, 1_500)];

/// A message in flight to a dead rank never completes. `ARMATURE_TEST_DEATHS` is the number of runs, each of which kills one to three of five ranks.
#[test]
fn survivors_do_not_wait_for_messages_of_dead_ranks() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    let runs = setting("ARMATURE_TEST_DEATHS", 2).unwrap_or_else(|e| panic!("{e}")) as u64;
    for run in 0..runs {
        let (bytes, tasks) = VALUES[run as usize % VALUES.len()];
        let directory = tempfile::tempdir().unwrap();
        let mut job = Job::new(PROGRAM, 5).arg("workflow-deaths").through([ARMATURE, "run", "--recover"]);
        job = job.limit(Duration::from_secs(120)).env("ARMATURE_TEST_TASKS", &tasks.to_string());
        job = job.env("ARMATURE_TEST_VALUE_BYTES", &bytes.to_string());
        let with_journal = noise(13, run).is_multiple_of(2);
        if with_journal {
            job = job.env("ARMATURE_TEST_JOURNAL", directory.path().join("journal").to_str().unwrap());
        }
        let running = job.start();
        running.wait_for("workflow under way");
        let (first, victims) = (noise(14, run) as usize, 1 + noise(15, run) as usize % 3);
        let processes: Vec<_> = (0..victims).map(|n| running.process(1 + (first + n) % 4)).collect();
        for (n, process) in (0..).zip(processes) {
            std::thread::sleep(Duration::from_millis(noise(16 + n, run) % 200));
            let _ = kill_process(process, Signal::KILL);
        }
        let outcome = running.wait();
        println!(
            "{victims} of 5 ranks, {bytes} bytes, journal {with_journal}: {} after {:.1?}",
            outcome.status, outcome.took
        );
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
        assert!(outcome.stdout.contains("workflow complete, lost ["), "{outcome}");
    }
}

#[test]
fn killed_job_resumes_from_its_journal_with_another_rank_count() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let with_journal = |job: Job| job.env("ARMATURE_TEST_JOURNAL", path.to_str().unwrap());
    let running = with_journal(deaths(2)).start();
    running.wait_for("workflow under way");
    std::thread::sleep(Duration::from_millis(300));
    running.kill_rank(0);
    assert!(!running.wait().status.success());
    let outcome = with_journal(deaths(3)).run();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let known =
        outcome.stdout.lines().find_map(|line| line.strip_prefix("workflow complete, lost [], known "));
    let known: Option<u64> = known.and_then(|known| known.parse().ok());
    assert!(known.is_some_and(|known| known > 20 && known < 2_000), "{outcome}");
}

/// The only worker dies in a task, and no rank is left for another try. The next job knows of this death, and its worker dies in the second try. The
/// task has then failed. A later job counts its tries from 1 again.
#[test]
fn restarted_job_knows_which_tasks_killed_its_ranks() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    for expected in ["after 1 try", "after 2 tries", "after 1 try"] {
        let job = Job::new(PROGRAM, 2).arg("workflow-deadly").through([ARMATURE, "run", "--recover"]);
        let outcome = job.env("ARMATURE_TEST_JOURNAL", path.to_str().unwrap()).run();
        assert!(!outcome.hung && outcome.left_behind.is_empty() && !outcome.status.success(), "{outcome}");
        assert!(outcome.stderr.contains(expected), "`{expected}` was not printed\n{outcome}");
    }
    let line = [ARMATURE, "run", "--recover", "--restarts", "3"];
    let job = Job::new(PROGRAM, 2).arg("workflow-deadly").through(line).limit(Duration::from_secs(60));
    let path = directory.path().join("another journal");
    let outcome = job.env("ARMATURE_TEST_JOURNAL", path.to_str().unwrap()).run();
    assert!(!outcome.hung && !outcome.status.success(), "{outcome}");
    assert!(
        outcome.stderr.contains("restart 1 of 3") && outcome.stderr.contains("after 2 tries"),
        "{outcome}"
    );
    assert!(
        !outcome.stderr.contains("restart 2"),
        "a task that has had its tries is no reason to go on\n{outcome}"
    );
}

/// Values of a workflow that do not fit into memory are in a directory of their rank. A killed process cannot remove it, so that the next job must.
#[test]
fn spill_files_of_a_killed_job_are_removed_by_the_next_job() {
    let directory = tempfile::tempdir().unwrap();
    let job = || {
        let place = directory.path().to_str().unwrap();
        Job::new(PROGRAM, 2).arg("workflow-short-of-memory").env("TMPDIR", place)
    };
    let spill_file_count = || {
        let entries = std::fs::read_dir(directory.path()).unwrap().flatten();
        entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("armature-spill-")).count()
    };
    let (running, start) = (job().start(), Instant::now());
    while spill_file_count() == 0 {
        assert!(start.elapsed() < Duration::from_secs(60), "nothing is on disk: {}", running.stderr_text());
        std::thread::sleep(Duration::from_millis(1));
    }
    running.kill();
    assert!(spill_file_count() > 0, "the job had ended before it was killed");
    job().passes(&["workflow-short-of-memory"]);
    assert_eq!(spill_file_count(), 0);
}

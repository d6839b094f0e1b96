//! Workflows of commands, and workflows whose ranks are killed.

use std::time::Duration;

use armature_launch::Mpi;
use armature_tests::check::noise;
use armature_tests::mpirun::{Job, linked};
use rustix::process::{Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");

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
fn another_plan_is_taken_when_a_rank_is_slower_than_planned() {
    for ranks in 2..=3 {
        let job = Job::new(PROGRAM, ranks).arg("workflow-slow-rank").limit(Duration::from_secs(60));
        job.passes(&["workflow-slow-rank"]);
    }
}

fn deaths(ranks: usize) -> Job {
    Job::new(PROGRAM, ranks).arg("workflow-deaths").limit(Duration::from_secs(60))
}

/// Open MPI's launcher lets the others go on if it is asked to; MPICH's does not.
#[test]
fn the_others_finish_when_a_rank_dies() {
    if linked(PROGRAM.as_ref()) != Mpi::OpenMpi {
        return;
    }
    for seed in 0..2 {
        let victim = 1 + noise(11, seed) as usize % 2;
        let running = deaths(3).flag("--enable-recovery").start();
        running.wait_for("workflow under way");
        std::thread::sleep(Duration::from_millis(noise(12, seed) % 300));
        kill_process(running.process(victim), Signal::KILL).expect("the rank is there");
        let outcome = running.wait();
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
        let line = format!("workflow complete, lost [{victim}], known 0");
        assert!(outcome.stdout.contains(&line), "`{line}` was not printed\n{outcome}");
    }
}

#[test]
fn a_job_that_is_killed_goes_on_from_its_journal_on_another_number_of_ranks() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("journal");
    let with_journal = |job: Job| job.env("ARMATURE_TEST_JOURNAL", path.to_str().unwrap());
    let running = with_journal(deaths(2)).start();
    running.wait_for("workflow under way");
    std::thread::sleep(Duration::from_millis(300));
    kill_process(running.process(0), Signal::KILL).expect("the rank is there");
    assert!(!running.wait().status.success());
    let outcome = with_journal(deaths(3)).run();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let known =
        outcome.stdout.lines().find_map(|line| line.strip_prefix("workflow complete, lost [], known "));
    let known: Option<u64> = known.and_then(|known| known.parse().ok());
    assert!(known.is_some_and(|known| known > 20 && known < 2_000), "{outcome}");
}

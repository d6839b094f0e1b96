//! Workers of a farm are killed while it runs. Open MPI's launcher lets the others go on if it is asked to; MPICH's does not.
//!
//! `ARMATURE_TEST_DEATHS` is the number of runs of each test (2 unless it is set).

use std::time::{Duration, Instant};

use armature_launch::Mpi;
use armature_tests::check::{noise, setting};
use armature_tests::mpirun::{Job, Outcome, Running, linked};
use rustix::process::{Signal, kill_process};

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-cases");

fn job(ranks: usize) -> Job {
    Job::new(PROGRAM, ranks).arg("farm-deaths").limit(Duration::from_secs(60))
}

/// Whether the launcher can let the others go on; says so where it cannot.
fn survives() -> bool {
    let survives = linked(PROGRAM.as_ref()) == Mpi::OpenMpi;
    if !survives {
        println!("MPICH's launcher ends the job when a rank dies; that it does is tested instead");
    }
    survives
}

fn runs() -> u64 {
    setting("ARMATURE_TEST_DEATHS", 2).unwrap_or_else(|e| panic!("{e}")) as u64
}

/// Kills ranks after a while that differs from run to run.
#[track_caller]
fn kill(running: &Running, ranks: &[usize], seed: u64) {
    running.wait_for("farm under way");
    for (n, &rank) in ranks.iter().enumerate() {
        std::thread::sleep(Duration::from_millis(noise(seed, n as u64) % 300));
        kill_process(running.process(rank), Signal::KILL).expect("the rank is there");
    }
}

#[track_caller]
fn complete(outcome: &Outcome, lost: &str) {
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let line = format!("farm complete, lost [{lost}]");
    assert!(outcome.stdout.contains(&line), "`{line}` was not printed\n{outcome}");
}

#[test]
fn the_others_finish_when_a_worker_dies() {
    for seed in 0..runs() {
        let victim = 1 + noise(11, seed) as usize % 2;
        if !survives() {
            let running = job(3).start();
            kill(&running, &[victim], seed);
            let outcome = running.wait();
            assert!(!outcome.status.success() && !outcome.hung, "{outcome}");
            continue;
        }
        let running = job(3).flag("--enable-recovery").start();
        kill(&running, &[victim], seed);
        complete(&running.wait(), &victim.to_string());
    }
}

#[test]
fn the_others_finish_when_two_workers_die() {
    for seed in (0..runs()).filter(|_| survives()) {
        let (first, second) = [(1, 2), (2, 3), (3, 1)][seed as usize % 3];
        let running = job(4).flag("--enable-recovery").env("ARMATURE_TEST_TASKS", "1500").start();
        kill(&running, &[first, second], seed);
        let outcome = running.wait();
        let (low, high) = (first.min(second), first.max(second));
        let either = [format!("{low}, {high}"), format!("{high}, {low}")];
        let line = either.iter().find(|l| outcome.stdout.contains(&format!("lost [{l}]")));
        complete(&outcome, line.unwrap_or(&either[0]));
    }
}

#[test]
fn workers_end_when_the_master_dies() {
    if !survives() {
        return;
    }
    let running = job(3).flag("--enable-recovery").env("ARMATURE_PEER_SECONDS", "3").start();
    running.wait_for("farm under way");
    let start = Instant::now();
    kill_process(running.process(0), Signal::KILL).expect("rank 0 is there");
    let outcome = running.wait();
    assert!(!outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert!(start.elapsed() < Duration::from_secs(30), "{outcome}");
    assert!(outcome.stderr.contains("from rank 0, the farm's master"), "{outcome}");
    assert!(!outcome.stdout.contains("farm complete"), "{outcome}");
}

/// It is taken for dead while it stands still, and does no harm when it goes on.
#[test]
fn a_worker_that_stood_still_for_too_long_is_done_without() {
    if !survives() {
        return;
    }
    let running = job(3).flag("--enable-recovery").env("ARMATURE_TEST_TASKS", "5000").start();
    running.wait_for("farm under way");
    let stopped = running.process(1);
    kill_process(stopped, Signal::STOP).expect("rank 1 is there");
    std::thread::sleep(Duration::from_millis(3_500));
    kill_process(stopped, Signal::CONT).expect("rank 1 is still there");
    complete(&running.wait(), "1");
}

//! armature in programs that use MPI themselves: before, after, several times, and on some of the ranks.

use std::time::Duration;

use armature_tests::mpirun::Job;

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-beside-mpi");

/// The case on so many ranks: each says that all is well, and nothing is left behind.
#[track_caller]
fn passes(case: &str, ranks: usize) {
    let outcome = Job::new(PROGRAM, ranks).arg(case).limit(Duration::from_secs(60)).run();
    assert!(outcome.status.success() && !outcome.hung, "{outcome}");
    for rank in 0..ranks {
        let line = format!("{case} rank {rank}: ok");
        assert!(outcome.stdout.lines().any(|found| found == line), "`{line}` is not said\n{outcome}");
    }
    assert!(outcome.left_behind.is_empty(), "{outcome}");
}

#[test]
fn a_program_initialises_mpi_first_and_uses_it_afterwards() {
    (1..4).for_each(|ranks| passes("mpi-first", ranks));
}

#[test]
fn armature_initialises_mpi_and_the_program_calls_it_between_skeletons() {
    (1..4).for_each(|ranks| passes("ours-first", ranks));
}

#[test]
fn several_runs_in_one_process() {
    (1..4).for_each(|ranks| passes("twice", ranks));
}

#[test]
fn on_half_of_the_ranks() {
    [2, 4].into_iter().for_each(|ranks| passes("half", ranks));
}

#[test]
fn a_failure_on_half_of_the_ranks_ends_those_that_wait_in_mpi() {
    let outcome = Job::new(PROGRAM, 4).arg("half-fails").limit(Duration::from_secs(60)).run();
    assert!(!outcome.status.success() && !outcome.hung, "{outcome}");
    assert!(outcome.stderr.contains("armature: rank 1: no fuel"), "{outcome}");
    assert!(!outcome.stdout.contains(": ok"), "{outcome}");
    assert!(outcome.left_behind.is_empty(), "{outcome}");
}

#[test]
fn skeletons_on_groups_of_ranks_side_by_side() {
    [1, 4].into_iter().for_each(|ranks| passes("groups", ranks));
}

#[test]
fn a_thread_level_that_is_too_low_is_refused_with_the_remedy() {
    passes("low-level", 2);
}

#[test]
fn a_run_after_mpi_has_ended_is_refused_with_the_remedy() {
    passes("finalised", 2);
}

//! Programs that call MPI themselves and use armature: before and after MPI calls, in several runs, and on some of the ranks only.

use std::time::Duration;

use armature_tests::mpirun::Job;

const PROGRAM: &str = env!("CARGO_BIN_EXE_armature-beside-mpi");

/// Runs a program in which each rank must print `ok`; no process may be left behind.
#[track_caller]
fn passes(case: &str, ranks: usize) {
    let outcome = Job::new(PROGRAM, ranks).arg(case).limit(Duration::from_secs(60)).run();
    assert!(outcome.status.success() && !outcome.hung, "{outcome}");
    for rank in 0..ranks {
        let line = format!("{case} rank {rank}: ok");
        assert!(outcome.stdout.lines().any(|found| found == line), "`{line}` is not printed\n{outcome}");
    }
    assert!(outcome.left_behind.is_empty(), "{outcome}");
}

#[test]
fn program_initialises_mpi_first_and_uses_it_afterwards() {
    (1..4).for_each(|ranks| passes("mpi-first", ranks));
}

#[test]
fn armature_initialises_mpi_and_the_program_calls_it_between_skeletons() {
    (1..4).for_each(|ranks| passes("ours-first", ranks));
}

#[test]
fn one_process_executes_several_runs() {
    (1..4).for_each(|ranks| passes("twice", ranks));
}

#[test]
fn run_uses_half_of_the_ranks() {
    [2, 4].into_iter().for_each(|ranks| passes("half", ranks));
}

/// A task must not call `run`, even if it runs on the thread that calls MPI (driver `inline`), from which the nested run could call MPI.
#[test]
fn nested_run_in_a_task_is_refused() {
    for driver in ["auto", "inline", "threaded"] {
        let job = Job::new(PROGRAM, 2).arg("inside").env("ARMATURE_DRIVER", driver);
        let outcome = job.limit(Duration::from_secs(60)).run();
        assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    }
}

/// Returns the sorted lines that the ranks have printed, except for `ok`: the error of `run`, and the values that were dropped.
#[track_caller]
fn returned(case: &str) -> Vec<String> {
    let outcome = Job::new(PROGRAM, 3).arg(case).limit(Duration::from_secs(60)).run();
    assert!(outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert_eq!(outcome.errors().len(), 1, "it is printed where it arose\n{outcome}");
    let mut lines: Vec<String> =
        outcome.stdout.lines().filter(|line| !line.ends_with(": ok")).map(String::from).collect();
    lines.sort();
    lines
}

#[test]
fn run_returns_the_error_on_every_rank_after_a_user_error() {
    let dropped = (0..3).map(|rank| format!("dropped on rank {rank}"));
    let returns = ["Peer", "Peer", "User"].map(|kind| format!("returned {kind}: rank 1: no fuel"));
    assert_eq!(returned("returned"), dropped.chain(returns).collect::<Vec<_>>());
}

/// Both the group of ranks and the session report the error of a farm in the group, but it must be printed once.
#[test]
fn failure_in_a_group_is_printed_once() {
    let outcome = Job::new(PROGRAM, 4).arg("group-fails").limit(Duration::from_secs(60)).run();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    assert!(matches!(outcome.errors()[..], [line] if line.contains("no fuel")), "{outcome}");
}

#[test]
fn failure_ignored_by_user_code_still_fails_the_run() {
    let lines = returned("handled");
    assert_eq!(lines.len(), 3, "{lines:?}");
    assert!(lines.iter().all(|line| line.contains("farm tear: task 5: torn")), "{lines:?}");
}

#[test]
fn failure_on_half_of_the_ranks_ends_ranks_waiting_in_mpi() {
    let outcome = Job::new(PROGRAM, 4).arg("half-fails").limit(Duration::from_secs(60)).run();
    assert!(!outcome.status.success() && !outcome.hung, "{outcome}");
    assert!(outcome.stderr.contains(": rank 1: no fuel"), "{outcome}");
    assert!(!outcome.stdout.contains(": ok"), "{outcome}");
    assert!(outcome.left_behind.is_empty(), "{outcome}");
}

#[test]
fn rank_that_never_calls_run_is_an_error_after_the_join_limit() {
    let job = Job::new(PROGRAM, 2).arg("late").env("ARMATURE_JOIN_SECONDS", "2");
    let outcome = job.limit(Duration::from_secs(20)).run();
    assert!(!outcome.status.success() && !outcome.hung && outcome.left_behind.is_empty(), "{outcome}");
    let text =
        "rank 0: has waited 2 s for other ranks of its communicator, which have not called `armature::run`";
    assert!(outcome.stderr.contains(text), "{outcome}");
}

#[test]
fn skeletons_run_concurrently_on_rank_groups() {
    [1, 4].into_iter().for_each(|ranks| passes("groups", ranks));
}

#[test]
fn too_low_thread_level_is_refused_with_a_remedy() {
    passes("low-level", 2);
}

#[test]
fn run_after_mpi_finalize_is_refused_with_a_remedy() {
    passes("finalised", 2);
}

//! Tests of the `synthetic-farm` command on threads and under mpirun.

use armature_tests::mpirun::Job;
use armature_tests::program::{ProgramOutput, fails, succeeds, survives_closed_output};
use serde_json::Value;
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_synthetic-farm");
const SMALL: &[&str] = &[
    "--tasks",
    "120",
    "--iterations",
    "3",
    "--mean",
    "0.3",
    "--deviation",
    "80",
    "--block",
    "5",
    "--task-bytes",
    "1000",
    "--result-bytes",
    "77",
];

fn synthetic(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command
}

fn line(printed: &str) -> Value {
    serde_json::from_str(printed.lines().last().unwrap_or_default())
        .unwrap_or_else(|e| panic!("{e}: {printed}"))
}

fn output_of_success(arguments: &[&str]) -> Value {
    let ProgramOutput { printed, messages } = succeeds(&mut synthetic(&[SMALL, arguments].concat()));
    assert_eq!(arguments.contains(&"--summary"), messages.contains("farm labour: 360 tasks"), "{messages}");
    assert_eq!(printed.lines().count(), 6, "{printed}");
    line(&printed)
}

fn number(value: &Value, name: &str) -> f64 {
    value[name].as_f64().unwrap_or_else(|| panic!("no number {name} in {value}"))
}

#[test]
fn results_are_equal_for_any_rank_count_and_chunking() {
    let one = output_of_success(&[]);
    assert_eq!((&one["tasks"], &one["iterations"], &one["workers"]), (&120.into(), &3.into(), &1.into()));
    for more in [
        &["--ranks", "2"][..],
        &["--ranks", "3", "--chunking", "daf", "--sleep"],
        &["--ranks", "3", "--dedicated-master", "--chunking", "ss", "--sleep"],
        &["--ranks", "3", "--chunking", "11", "--request-ahead", "1", "--summary"],
        &["--ranks", "4", "--chunking", "static", "--sleep"],
    ] {
        let found = output_of_success(more);
        assert_eq!(found["checksum"], one["checksum"], "{more:?}");
        assert_eq!(found["work_seconds"], one["work_seconds"], "{more:?}");
        if more.contains(&"--dedicated-master") {
            assert_eq!(found["workers"], 2, "{found}");
        }
    }
    let other = output_of_success(&["--seed", "2"]);
    assert_ne!(other["checksum"], one["checksum"]);
}

/// Sleeping tasks need no core, so only the overhead of the farm reduces the efficiency. The limit of one half allows for a busy machine.
#[test]
fn efficiency_is_the_fraction_of_time_spent_in_tasks() {
    let run = ["--tasks", "60", "--mean", "10", "--ranks", "3", "--sleep", "--chunking", "ss"];
    let found = line(&succeeds(&mut synthetic(&run)).printed);
    let (work, makespan) = (number(&found, "work_seconds"), number(&found, "makespan_seconds"));
    assert!((work - 0.6).abs() < 1e-9, "{found}");
    let efficiency = number(&found, "efficiency");
    assert!((efficiency - work / (number(&found, "workers") * makespan)).abs() < 1e-9, "{found}");
    assert!(efficiency > 0.5 && efficiency <= 1.0, "{found}");
    assert!(number(&found, "busy_seconds") >= work, "{found}");
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    survives_closed_output(|| synthetic(&["--ranks", "2", "--summary"]));
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let bad = |arguments: &[&str]| fails(&mut synthetic(arguments));
    assert!(bad(&["--mean", "-3"]).contains("expected a number from 0 to 3600000"));
    assert!(bad(&["--tasks", "0"]).contains("1..=100000000"));
    assert!(bad(&["--tasks", "100000000", "--task-bytes", "1000"]).contains("bytes an iteration"));
    assert!(bad(&["--chunking", "sometimes"]).contains("awf-b"));
}

#[test]
fn results_are_equal_under_mpirun() {
    let one = output_of_success(&[]);
    for ranks in [2, 3] {
        let outcome = SMALL.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word)).succeeds();
        let found = line(&outcome.stdout);
        assert_eq!(found["checksum"], one["checksum"], "{outcome}");
        assert_eq!(found["iterations"], 3, "{outcome}");
    }
}

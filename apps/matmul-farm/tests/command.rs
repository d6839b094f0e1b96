//! Tests of the `matmul-farm` command on threads and under mpirun.

use armature_tests::mpirun::Job;
use armature_tests::program::{ProgramOutput, fails, succeeds, survives_closed_output};
use std::process::Command;

const PROGRAM: &str = env!("CARGO_BIN_EXE_matmul-farm");
const SMALL: &[&str] = &["--places", "130", "--check"];

fn matmul(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command
}

fn output_of_success(arguments: &[&str]) -> (String, String) {
    let ProgramOutput { printed, messages } = succeeds(&mut matmul(&[SMALL, arguments].concat()));
    assert!(messages.contains("the same bits as from the plain loop"), "{arguments:?}: {messages}");
    (printed, messages)
}

#[test]
fn central_places_are_equal_for_any_rank_and_block_count() {
    let (one, _) = output_of_success(&[]);
    assert!(one.starts_with("largest eigenvalue ") && one.lines().count() == 6, "{one}");
    for more in [
        &["--ranks", "2"][..],
        &["--ranks", "3", "--block", "7"],
        &["--ranks", "3", "--block", "130"],
        &["--ranks", "3", "--dedicated-master", "--chunking", "daf", "--summary"],
        &["--ranks", "4", "--chunking", "static", "--block", "33"],
    ] {
        let (found, messages) = output_of_success(more);
        assert_eq!(found, one, "{more:?}");
        assert_eq!(more.contains(&"--summary"), messages.contains("iterations"), "{messages}");
    }
    let residual = one.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap();
    assert!(residual.parse::<f64>().unwrap() < 1e-10, "{one}");
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    survives_closed_output(|| matmul(&["--ranks", "2", "--summary"]));
}

#[test]
fn errors_name_the_problem_and_its_place() {
    let bad = |arguments: &[&str]| fails(&mut matmul(arguments));
    let early = bad(&["--places", "50", "--squarings", "2", "--ranks", "2"]);
    assert!(early.contains("after 2 squarings") && early.contains("no eigenvector dominates"), "{early}");
    assert!(bad(&["--places", "0"]).contains("1..=4096"));
    assert!(bad(&["--chunking", "0"]).contains("awf-b"));
}

#[test]
fn central_places_are_equal_under_mpirun() {
    let (one, _) = output_of_success(&[]);
    for ranks in [2, 3] {
        let outcome = SMALL.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word)).succeeds();
        assert!(outcome.stderr.contains("the same bits as from the plain loop"), "{outcome}");
        assert_eq!(outcome.stdout, one);
    }
}

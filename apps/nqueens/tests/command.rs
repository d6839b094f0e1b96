//! Tests of the `nqueens` command on threads and under mpirun.

use std::fs;
use std::process::Command;

use armature_tests::mpirun::Job;
use armature_tests::program::{fails, succeeds, survives_closed_output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_nqueens");

fn nqueens(arguments: &[&str]) -> Command {
    let mut command = Command::new(PROGRAM);
    command.args(arguments);
    command
}

#[test]
fn solution_count_is_equal_for_any_rank_count_and_chunking() {
    for more in [
        &[][..],
        &["--ranks", "2", "--serial-rows", "0"],
        &["--ranks", "3", "--serial-rows", "5", "--chunking", "ss"],
        &["--ranks", "3", "--dedicated-master", "--chunking", "static"],
        &["--ranks", "4", "--chunking", "7", "--request-ahead", "2"],
    ] {
        let run = succeeds(&mut nqueens(&[&["10", "--check", "--summary"], more].concat()));
        assert_eq!(run.printed.trim(), "724", "{more:?}");
        assert!(
            run.messages.contains("farm queens: ") && run.messages.contains("10 rows in"),
            "{}",
            run.messages
        );
    }
}

#[test]
fn killed_search_resumes_and_counts_all_solutions() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queens.journal");
    let journal_options = [
        "11",
        "--ranks",
        "2",
        "--serial-rows",
        "4",
        "--check",
        "--summary",
        "--journal",
        path.to_str().unwrap(),
    ];
    let first = succeeds(&mut nqueens(&journal_options));
    assert!(!first.messages.contains("restored from the journal"), "{}", first.messages);
    let whole = fs::metadata(&path).unwrap().len();
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(whole / 2).unwrap();
    let again = succeeds(&mut nqueens(&journal_options));
    assert_eq!(again.printed.trim(), "2680");
    assert!(again.messages.contains("restored from the journal"), "{}", again.messages);
    let other = fails(&mut nqueens(&["10", "--serial-rows", "4", "--journal", path.to_str().unwrap()]));
    for expected in ["it belongs to another job", "[11,4]", "[10,4]"] {
        assert!(other.contains(expected), "{other}");
    }
}

#[test]
fn ranks_are_processes_under_mpirun() {
    let outcome = Job::new(PROGRAM, 3).arg("11").arg("--serial-rows").arg("5").arg("--check").succeeds();
    assert_eq!(outcome.stdout.trim(), "2680", "{outcome}");
}

#[test]
fn job_completes_when_its_output_is_closed() {
    survives_closed_output(|| nqueens(&["8", "--ranks", "2", "--summary"]));
}

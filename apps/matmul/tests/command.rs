//! The `matmul` command as a user runs it: on threads and under mpirun.

use armature_tests::mpirun::Job;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_matmul");

fn matmul(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

#[test]
fn every_number_of_ranks_makes_the_same_product() {
    for more in [
        &[][..],
        &["--ranks", "2", "--passes", "5"],
        &["--ranks", "3", "--block", "7", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--passes", "3", "--block", "2", "--forced", "5"],
        &["--ranks", "8", "--size", "5"],
        &["--ranks", "2", "--size", "1"],
    ] {
        let size = ["--size", "130"].into_iter().filter(|_| !more.contains(&"--size"));
        let words: Vec<&str> = size.chain(more.iter().copied()).chain(["--verify"]).collect();
        let output = matmul(&words);
        let text = String::from_utf8(output.stdout).unwrap() + &String::from_utf8(output.stderr).unwrap();
        assert!(output.status.success(), "{words:?}: {text}");
        assert!(text.contains(" multiplied ") && text.contains("the same bits as the serial loop"), "{text}");
        assert!(text.contains(", efficiency ") && text.contains("Gflop/s"), "{text}");
        assert_eq!(
            more.contains(&"--summary"),
            text.contains("loop matmul: 130 units, 1 pass in "),
            "{text}"
        );
        assert!(!more.contains(&"--forced") || !text.contains(" 0 rows moved in 0 movements"), "{text}");
    }
}

#[test]
fn failures_say_what_and_where() {
    for (arguments, expected) in [
        (&["--size", "0"][..], "1..=32768"),
        (
            &["--ranks", "2", "--shares", "1"],
            "loop matmul: shares of a loop must be one positive number for each of 2",
        ),
    ] {
        let output = matmul(arguments);
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && messages.contains(expected), "{arguments:?}: {messages}");
        assert!(!messages.contains("panicked"), "{messages}");
    }
}

#[test]
fn under_mpirun_it_makes_the_same_product() {
    for ranks in [2, 3] {
        let words = ["--size", "120", "--passes", "20", "--forced", "3", "--block", "2", "--verify"];
        let job = words.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word));
        let outcome = job.succeeds();
        assert!(outcome.stdout.contains("the same bits as the serial loop"), "{outcome}");
        assert!(!outcome.stdout.contains(" 0 rows moved"), "{outcome}");
    }
}

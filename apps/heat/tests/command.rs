//! The `heat` command as a user runs it: on threads and under mpirun.

use armature_tests::mpirun::Job;
use std::process::{Command, Output};

const PROGRAM: &str = env!("CARGO_BIN_EXE_heat");

fn heat(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn good(arguments: &[&str]) -> String {
    let output = heat(arguments);
    let messages = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{arguments:?}: {messages}");
    String::from_utf8(output.stdout).unwrap() + &messages
}

#[test]
fn every_number_of_ranks_makes_the_same_grid() {
    for more in [
        &[][..],
        &["--ranks", "2"],
        &["--ranks", "3", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--forced", "5"],
        &["--ranks", "8", "--size", "5x9"],
        &["--ranks", "2", "--size", "2"],
        &["--ranks", "2", "--steps", "0"],
    ] {
        let usual = [("--size", "70x50"), ("--steps", "60")];
        let usual = usual.into_iter().filter(|(name, _)| !more.contains(name)).flat_map(|(n, v)| [n, v]);
        let words: Vec<&str> = usual.chain(more.iter().copied()).chain(["--verify"]).collect();
        let text = good(&words);
        assert!(text.contains(" steps in ") && text.contains("the same bits as the serial loop"), "{text}");
        assert!(text.contains(" movements") || text.contains(" 1 movement"), "{text}");
        assert_eq!(more.contains(&"--summary"), text.contains("loop heat: 68 units, 60 passes"), "{text}");
        assert!(!more.contains(&"--forced") || !text.contains(" 0 rows moved in 0 movements"), "{text}");
    }
}

#[test]
fn failures_say_what_and_where() {
    for (arguments, expected) in [
        (&["--size", "many"][..], "expected N or ROWSxCOLUMNS"),
        (
            &["--ranks", "2", "--shares", "1"],
            "loop heat: shares of a loop must be one positive number for each of 2",
        ),
        (&["--ranks", "0"], "1..=4096"),
    ] {
        let output = heat(arguments);
        let messages = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && messages.contains(expected), "{arguments:?}: {messages}");
        assert!(!messages.contains("panicked"), "{messages}");
    }
}

#[test]
fn under_mpirun_it_makes_the_same_grid() {
    for ranks in [2, 3] {
        let words = ["--size", "120x90", "--steps", "100", "--forced", "3", "--verify"];
        let job = words.iter().fold(Job::new(PROGRAM, ranks), |job, word| job.arg(*word));
        let outcome = job.succeeds();
        assert!(outcome.stdout.contains("the same bits as the serial loop"), "{outcome}");
        assert!(!outcome.stdout.contains(" 0 rows moved"), "{outcome}");
    }
}

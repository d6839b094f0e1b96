//! The `matmul` command as a user runs it: on threads and under mpirun.

use armature_tests::loops::LoopProgram;
use armature_tests::program::fails;

const PROGRAM: LoopProgram = LoopProgram {
    path: env!("CARGO_BIN_EXE_matmul"),
    usual: &[("--size", "130")],
    says: &[" multiplied ", "Gflop/s"],
    summary: "loop matmul: 130 units, 1 pass in ",
};

#[test]
fn every_number_of_ranks_makes_the_same_product() {
    PROGRAM.agrees(&[
        &[],
        &["--ranks", "2", "--passes", "5"],
        &["--ranks", "3", "--block", "7", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--passes", "3", "--block", "2", "--forced", "5"],
        &["--ranks", "8", "--size", "5"],
        &["--ranks", "2", "--size", "1"],
    ]);
}

#[test]
fn failures_say_what_and_where() {
    let shares = "loop matmul: shares of a loop must be one positive number for each of 2";
    for (arguments, expected) in [
        (&["--size", "0"][..], "1..=32768"),
        (&["--ranks", "2", "--shares", "1"], shares),
        (&["--ranks", "0"], "1..=4096"),
    ] {
        let messages = fails(&mut PROGRAM.command(arguments));
        assert!(messages.contains(expected), "{arguments:?}: {messages}");
    }
}

#[test]
fn under_mpirun_it_makes_the_same_product() {
    PROGRAM.agrees_under_mpirun(&["--size", "120", "--passes", "20", "--forced", "3", "--block", "2"]);
}

//! Tests of the `matmul` command on threads and under mpirun.

use armature_tests::loops::LoopProgram;

const PROGRAM: LoopProgram = LoopProgram {
    name: "matmul",
    path: env!("CARGO_BIN_EXE_matmul"),
    default_options: &[("--size", "130")],
    expected_texts: &[" multiplied ", "Gflop/s"],
    summary: "130 units in ",
};

#[test]
fn product_is_equal_for_any_rank_count() {
    PROGRAM.matches_serial_loop(&[
        &[],
        &["--ranks", "2", "--passes", "5"],
        &["--ranks", "3", "--block", "7", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--passes", "200", "--block", "2", "--forced", "5"],
        &["--ranks", "8", "--size", "5"],
        &["--ranks", "2", "--size", "1"],
    ]);
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    PROGRAM.survives_closed_output();
}

#[test]
fn errors_name_the_problem_and_its_place() {
    PROGRAM.rejects(&[(&["--size", "0"], "1..=32768")]);
}

#[test]
fn product_equals_the_serial_product_under_mpirun() {
    PROGRAM.matches_serial_loop_under_mpirun(&[
        "--size", "120", "--passes", "300", "--forced", "3", "--block", "2",
    ]);
}

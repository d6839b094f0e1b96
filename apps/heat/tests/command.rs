//! Tests of the `heat` command on threads and under mpirun.

use armature_tests::loops::LoopProgram;

const PROGRAM: LoopProgram = LoopProgram {
    name: "heat",
    path: env!("CARGO_BIN_EXE_heat"),
    default_options: &[("--size", "70x50"), ("--steps", "60")],
    expected_texts: &[" steps in "],
    summary: "4080 units in ",
};

#[test]
fn grid_is_equal_for_any_rank_count() {
    PROGRAM.matches_serial_loop(&[
        &[],
        &["--ranks", "2"],
        &["--ranks", "3", "--summary"],
        &["--ranks", "2", "--shares", "3,1", "--balance", "off"],
        &["--ranks", "4", "--forced", "5"],
        &["--ranks", "8", "--size", "5x9"],
        &["--ranks", "2", "--size", "3"],
        &["--ranks", "2", "--steps", "1"],
    ]);
}

#[test]
fn closed_standard_output_is_not_a_failure() {
    PROGRAM.survives_closed_output();
}

#[test]
fn errors_name_the_problem_and_its_place() {
    PROGRAM.rejects(&[
        (&["--size", "many"], "expected N or ROWSxCOLUMNS"),
        (&["--size", "9x2"], "each at least 3 with its two fixed edges"),
        (&["--steps", "0"], "0 is not in 1.."),
        (&["--block", "3"], "unexpected argument '--block'"),
    ]);
}

#[test]
fn grid_equals_the_serial_grid_under_mpirun() {
    PROGRAM.matches_serial_loop_under_mpirun(&["--size", "120x90", "--steps", "100", "--forced", "3"]);
}

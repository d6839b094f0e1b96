//! Runs a job through all its phases, and records the phase of each rank in files: see `armature_tests::phases`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    armature::exit_code(armature_tests::phases::main(&words))
}

//! Goes through all phases of a job and says in files where it is: see `armature_tests::phases`.

use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    armature::exit_code(armature_tests::phases::main(&words))
}

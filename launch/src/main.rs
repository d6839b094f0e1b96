//! The command `armature`, which is implemented in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_launch::cli::main()
}

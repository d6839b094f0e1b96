//! The `armature` command. Its implementation is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_launch::cli::main()
}

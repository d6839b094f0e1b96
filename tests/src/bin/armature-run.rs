//! The `armature` command under another name, which the tests of this package start.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_launch::cli::main()
}

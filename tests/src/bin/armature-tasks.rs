//! The `armature-workflow` command under another name, which the tests of this package start.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_commands::enter();
    workflow::cli::main()
}

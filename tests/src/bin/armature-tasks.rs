//! The command `armature-workflow` under another name, for the tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_commands::enter();
    workflow::cli::main()
}

//! The `armature-workflow` command under a name of its own: the tests of this package start it.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_commands::enter();
    workflow::cli::main()
}

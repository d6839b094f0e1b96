//! The `armature-workflow` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The process that starts commands runs this program, too, and does not return from this call.
    armature_commands::enter();
    workflow::cli::main()
}

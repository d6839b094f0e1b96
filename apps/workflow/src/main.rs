//! The `armature-workflow` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The runtime starts this program a second time as the process that starts the tasks' commands. In that process this call does not return.
    armature_commands::enter();
    workflow::cli::main()
}

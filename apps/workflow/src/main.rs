//! The `armature-workflow` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // A starter of commands is this program, too: it goes no further.
    armature_commands::enter();
    workflow::cli::main()
}

//! The `armature-workflow` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    // The runtime starts this program a second time as a helper process, which starts the commands of tasks. In the helper process, this call does
    // not return.
    armature_commands::enter();
    workflow::cli::main()
}

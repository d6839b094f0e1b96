//! The command `armature` under another name, for the tests of this package.

use std::process::ExitCode;

fn main() -> ExitCode {
    armature_launch::cli::main()
}

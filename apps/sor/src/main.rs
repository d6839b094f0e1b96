//! The `sor` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    sor::cli::main()
}

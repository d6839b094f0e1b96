//! The `heat` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    heat::cli::main()
}

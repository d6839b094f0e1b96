//! The `ferret` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    ferret::cli::main()
}

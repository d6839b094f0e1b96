//! The `synthetic-farm` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    synthetic_farm::cli::main()
}

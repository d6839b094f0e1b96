//! The `align` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    align::cli::main()
}

//! The `nqueens` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    nqueens::cli::main()
}

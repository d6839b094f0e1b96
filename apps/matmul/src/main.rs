//! The `matmul` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    matmul::cli::main()
}

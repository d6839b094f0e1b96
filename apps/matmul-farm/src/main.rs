//! The `matmul-farm` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    matmul_farm::cli::main()
}

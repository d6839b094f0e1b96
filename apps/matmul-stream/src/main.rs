//! The `matmul-stream` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    matmul_stream::cli::main()
}

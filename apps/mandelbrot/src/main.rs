//! The `mandelbrot` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    mandelbrot::cli::main()
}

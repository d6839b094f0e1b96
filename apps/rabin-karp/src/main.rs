//! The `rabin-karp` command.

use std::process::ExitCode;

fn main() -> ExitCode {
    rabin_karp::cli::main()
}

//! Exit code and last message of a program.

use crate::terminal::tell;
use std::error::Error;
use std::process::ExitCode;

/// Returns the exit code of the program `name`, and prints its error on stderr if there is one.
pub fn end(name: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tell(format_args!("{name}: {e}"));
            ExitCode::FAILURE
        }
    }
}

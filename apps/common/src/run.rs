//! How a program ends.

use crate::terminal::tell;
use std::error::Error;
use std::process::ExitCode;

/// How the program `name` ends: with its error on stderr, if there is one.
pub fn end(name: &str, result: Result<(), Box<dyn Error>>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            tell(format_args!("{name}: {e}"));
            ExitCode::FAILURE
        }
    }
}

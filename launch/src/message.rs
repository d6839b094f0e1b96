//! Messages on standard error, which may have been closed by its reader.

use std::fmt::Display;
use std::io::Write;

/// Prints a message to standard error as one line. Characters that act on a terminal or end a line are escaped. If standard error is
/// closed, the message is dropped: `eprintln!` would panic, and the job would lose its supervisor.
pub(crate) fn print_message(text: impl Display) {
    // The message is written in one call, so that the output of ranks does not interrupt it.
    let line = format!("armature: {}\n", armature_text::line(text));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

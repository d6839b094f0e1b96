//! What the command says on standard error, whose reader may have left.

use std::fmt::Display;
use std::io::Write;

/// Prints a message to standard error as one line; characters in it that act on a terminal or end a line are escaped. Where
/// nobody reads standard error any more the message is dropped: `eprintln!` would panic, and the job would lose the command that
/// supervises it.
pub(crate) fn say(text: impl Display) {
    // In one piece, so that what ranks print does not come in between.
    let line = format!("armature: {}\n", armature_text::line(text));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

//! What the command says on standard error, whose reader may have left.

use std::fmt::Display;
use std::io::Write;

/// Says a line; characters of names and messages from outside that act on a terminal or end a line are escaped. Where nobody reads it any more, it is dropped: `eprintln!` would panic, and a job would be without the command
/// that looks after it.
pub(crate) fn say(text: impl Display) {
    // In one piece, so that what ranks print does not come in between.
    let line = format!("armature: {}\n", armature_text::line(text));
    let _ = std::io::stderr().write_all(line.as_bytes());
}

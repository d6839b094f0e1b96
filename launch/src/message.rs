//! Prints messages to standard error, whose reader may have closed it.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

static LOG: Mutex<Option<File>> = Mutex::new(None);

pub(crate) fn copy_to(log: Option<File>) {
    *LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = log;
}

/// Prints a message as one line; characters that act on a terminal or end a line are escaped. If standard error is closed, `eprintln!` would panic
/// and end the process that supervises the job; here the message is dropped.
pub(crate) fn print_message(text: impl Display) {
    // The line is printed by one write, so that the output of ranks cannot appear within it.
    let line = format!("armature: {}\n", armature_text::line(text));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = &mut *LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
        let _ = log.write_all(line.as_bytes());
    }
}

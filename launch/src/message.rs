//! Messages on standard error, which may have been closed by its reader.

use std::fmt::Display;
use std::fs::File;
use std::io::Write;
use std::sync::Mutex;

/// Log of the run, to which each message of this process is copied.
static LOG: Mutex<Option<File>> = Mutex::new(None);

/// From now on, copies the messages of this process to a log.
pub(crate) fn copy_to(log: Option<File>) {
    *LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = log;
}

/// Prints a message to standard error as one line. Characters that act on a terminal or end a line are escaped. If standard error is
/// closed, the message is dropped: `eprintln!` would panic, and the job would lose its supervisor.
pub(crate) fn print_message(text: impl Display) {
    // The message is written in one call, so that the output of ranks cannot appear in the middle of the line.
    let line = format!("armature: {}\n", armature_text::line(text));
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(log) = &mut *LOG.lock().unwrap_or_else(std::sync::PoisonError::into_inner) {
        let _ = log.write_all(line.as_bytes());
    }
}

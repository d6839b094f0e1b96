//! Standard output and standard error, whose reader may close them.
//!
//! In `ferret query … | head`, the reader closes the pipe when it has read enough. This is no failure of the program, and further output is
//! discarded. Every other error on standard output, such as a full disk, is an error of the program. Errors on standard error are ignored,
//! because they are no reason to end a job.

use std::fmt::Display;
use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard output that continues without error after its reader has closed it. Error messages say that standard output could not be written.
#[derive(Debug)]
pub struct Output<W = Stdout> {
    to: W,
    reader: Reader,
}

/// Handle that shows whether the reader of an [`Output`] has closed it, so that producers of the output can stop early.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    closed: Arc<AtomicBool>,
}

impl Reader {
    /// Returns true if the reader has closed the output, so that further output is not needed.
    pub fn has_closed(&self) -> bool {
        self.closed.load(Ordering::Relaxed)
    }
}

impl Output {
    /// Returns the standard output of the process.
    pub fn standard() -> Self {
        Output::new(io::stdout())
    }
}

impl<W: Write> Output<W> {
    fn new(to: W) -> Self {
        Output { to, reader: Reader::default() }
    }

    /// Returns a handle that shows whether the reader has closed the output.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// Calls `write` with the wrapped writer and returns the result. If the reader has closed the output, returns the value `dropped` instead of an
    /// error.
    fn unless_closed<T>(&mut self, dropped: T, write: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.reader.has_closed() {
            return Ok(dropped);
        }
        match write(&mut self.to) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.reader.closed.store(true, Ordering::Relaxed);
                Ok(dropped)
            }
            result => {
                result.map_err(|e| io::Error::new(e.kind(), format!("cannot write to standard output: {e}")))
            }
        }
    }
}

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.unless_closed(bytes.len(), |to| to.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_closed((), W::flush)
    }
}

/// Writes `text` to standard output completely.
///
/// # Errors
/// Standard output cannot be written although its reader has not closed it.
pub fn print(text: impl Display) -> io::Result<()> {
    let mut output = Output::standard();
    output.write_all(text.to_string().as_bytes()).and_then(|()| output.flush())
}

/// Writes `text` as a line to standard error. Characters that act on a terminal are escaped, and errors are ignored.
pub fn eprint_line(text: impl Display) {
    // A single write keeps the line together, because other ranks write to standard error, too. Errors are ignored, because they could not be
    // reported anywhere.
    let _ = io::stderr().write_all(escaped_line(text).as_bytes());
}

fn escaped_line(text: impl Display) -> String {
    format!("{}\n", armature_text::lines(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    struct LimitedWriter(usize, ErrorKind);

    impl Write for LimitedWriter {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let accepted = bytes.len().min(self.0);
            self.0 -= accepted;
            if accepted == 0 { Err(self.1.into()) } else { Ok(accepted) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn closed_pipe_is_not_a_write_failure() {
        let mut output = Output::new(LimitedWriter(10, ErrorKind::BrokenPipe));
        let reader = output.reader();
        output.write_all(b"123456789\n").unwrap();
        assert!(!reader.has_closed());
        output.write_all(b"more").unwrap();
        assert!(reader.has_closed());
        output.write_all(b"and more").unwrap();
        output.flush().unwrap();
    }

    #[test]
    fn control_characters_in_messages_are_escaped() {
        assert_eq!(escaped_line("a\nb\u{1b}[2J\u{202e}"), "a\nb\\u{1b}[2J\\u{202e}\n");
    }

    #[test]
    fn other_write_errors_are_failures() {
        for kind in [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::ConnectionReset] {
            let mut output = Output::new(LimitedWriter(3, kind));
            assert_eq!(output.write_all(b"1234").unwrap_err().kind(), kind);
            assert!(!output.reader().has_closed());
        }
    }
}

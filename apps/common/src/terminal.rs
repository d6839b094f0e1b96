//! Standard output and standard error, whose reader may leave.
//!
//! In `ferret query … | head` the reader closes the pipe as soon as it has seen enough. That is its choice and no failure of the
//! program: what is written from then on is dropped. Whatever else keeps text from being written, such as a full disk, is
//! an error on standard output. Messages on standard error are not worth ending a job for.

use std::fmt::Display;
use std::io::{self, ErrorKind, Stdout, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Standard output that goes on without its reader. Errors say that it could not be written.
#[derive(Debug)]
pub struct Output<W = Stdout> {
    to: W,
    reader: Reader,
}

/// Whether the reader of an [`Output`] is still there. Shared, so that those who make the output can end early.
#[derive(Clone, Debug, Default)]
pub struct Reader {
    left: Arc<AtomicBool>,
}

impl Reader {
    /// Whether the reader has left: nothing more needs to be made for it.
    pub fn has_left(&self) -> bool {
        self.left.load(Ordering::Relaxed)
    }
}

impl Output {
    /// Standard output.
    pub fn standard() -> Self {
        Output::new(io::stdout())
    }
}

impl<W: Write> Output<W> {
    /// Standard output that `to` takes.
    fn new(to: W) -> Self {
        Output { to, reader: Reader::default() }
    }

    /// Who reads it.
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    /// What came of writing, where `dropped` is what is said if there is nobody to write for.
    fn unless_left<T>(&mut self, dropped: T, write: impl FnOnce(&mut W) -> io::Result<T>) -> io::Result<T> {
        if self.reader.has_left() {
            return Ok(dropped);
        }
        match write(&mut self.to) {
            Err(e) if e.kind() == ErrorKind::BrokenPipe => {
                self.reader.left.store(true, Ordering::Relaxed);
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
        self.unless_left(bytes.len(), |to| to.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.unless_left((), W::flush)
    }
}

/// Writes `text` to standard output, down to the last byte.
///
/// # Errors
/// If it cannot be written although there is a reader.
pub fn print(text: impl Display) -> io::Result<()> {
    let mut output = Output::standard();
    output.write_all(text.to_string().as_bytes()).and_then(|()| output.flush())
}

/// Writes a line of `text` to standard error, if it can be written. Characters that act on a terminal are escaped.
pub fn tell(text: impl Display) {
    // In one piece: other ranks write there too. Nobody is left to be told of a failure.
    let _ = io::stderr().write_all(told(text).as_bytes());
}

fn told(text: impl Display) -> String {
    format!("{}\n", armature_text::lines(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes so many bytes and then fails.
    struct Takes(usize, ErrorKind);

    impl Write for Takes {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let taken = bytes.len().min(self.0);
            self.0 -= taken;
            if taken == 0 { Err(self.1.into()) } else { Ok(taken) }
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_leaves_is_no_failure() {
        let mut output = Output::new(Takes(10, ErrorKind::BrokenPipe));
        let reader = output.reader();
        output.write_all(b"123456789\n").unwrap();
        assert!(!reader.has_left());
        output.write_all(b"more").unwrap();
        assert!(reader.has_left());
        output.write_all(b"and more").unwrap();
        output.flush().unwrap();
    }

    #[test]
    fn messages_do_not_act_on_a_terminal() {
        assert_eq!(told("a\nb\u{1b}[2J\u{202e}"), "a\nb\\u{1b}[2J\\u{202e}\n");
    }

    #[test]
    fn anything_else_is() {
        for kind in [ErrorKind::StorageFull, ErrorKind::PermissionDenied, ErrorKind::ConnectionReset] {
            let mut output = Output::new(Takes(3, kind));
            assert_eq!(output.write_all(b"1234").unwrap_err().kind(), kind);
            assert!(!output.reader().has_left());
        }
    }
}

//! The one error type of commands.

use std::fmt;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why commands cannot be run at all, or their output not be read. What happens to a single command is an
/// [`Ended`](crate::Ended), not an error.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What sort of problem an [`Error`] is; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The starter could not be started, or refused what it was asked for.
    Start,
    /// The starter has died.
    Dead,
    /// What came from the other side is no message, or this is misuse by the caller.
    Protocol,
    /// An output file cannot be written, or is none.
    Output,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// For `map_err`: what was being done, before what the system says.
    pub(crate) fn io(kind: ErrorKind, doing: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::new(kind, format!("cannot {doing}: {error}"))
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

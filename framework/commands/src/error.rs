//! Error type of the crate.

use std::fmt;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error in running commands or reading their output. A command that fails is not an error of this crate:
/// [`Ended`](crate::Ended) describes its failure.
#[derive(Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Kind of an [`Error`]. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The starter (the process that runs the commands) could not be started, or refused its options.
    Start,
    /// The starter (the process that runs the commands) has died.
    Dead,
    /// A received message is invalid, or a request of the caller is too large.
    Protocol,
    /// An output file cannot be written or read, or is not an output file.
    Output,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    pub(crate) fn io(kind: ErrorKind, doing: impl fmt::Display) -> impl FnOnce(std::io::Error) -> Error {
        move |error| Error::new(kind, format!("cannot {doing}: {error}"))
    }

    /// Returns the kind of the error.
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

//! Error type of the planner.

use std::fmt;

/// Result of the planner's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a call of the planner.
///
/// The type is opaque: [`kind`](Error::kind) and [`message`](Error::message) return its parts, and `Display` prints both. The message contains what
/// is wrong, where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Kind of an [`Error`]; more kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The description of processors and links (a platform or cluster) is invalid.
    Platform,
    /// The description of the pipeline is invalid.
    Pipeline,
    /// A mapping breaks a rule: a stage is missing, a processor does not exist, or a serial stage is replicated.
    Mapping,
    /// An option has an invalid value.
    Options,
    /// No mapping or plan satisfies the requested rules.
    Infeasible,
    /// The description of a farm is invalid.
    Farm,
    /// The description of a parallel loop, or a report about it, is invalid.
    Loop,
    /// The description of a workflow is invalid.
    Workflow,
}

impl Error {
    /// Creates an error of the given kind with the given message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message: what is wrong, where, and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            ErrorKind::Platform => "platform",
            ErrorKind::Pipeline => "pipeline",
            ErrorKind::Mapping => "mapping",
            ErrorKind::Options => "planner options",
            ErrorKind::Infeasible => "no plan",
            ErrorKind::Farm => "farm",
            ErrorKind::Loop => "loop",
            ErrorKind::Workflow => "workflow",
        };
        write!(f, "{what}: {}", self.message)
    }
}

impl std::error::Error for Error {}

//! The one error type of the planner.

use std::fmt;

/// Result of the planner's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a question could not be answered.
///
/// The type is opaque: read it with [`kind`](Error::kind) and [`message`](Error::message), or show it. The
/// message says what is wrong, where, and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// What sort of problem an [`Error`] is; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The description of the machine cannot be used.
    Platform,
    /// The description of the pipeline cannot be used.
    Pipeline,
    /// A mapping breaks a rule: a stage left out, an unknown processor, a serial stage replicated.
    Mapping,
    /// An option has a value that cannot be used.
    Options,
    /// No mapping satisfies the rules that were asked for.
    Infeasible,
    /// The description of a farm cannot be used.
    Farm,
    /// The description of a parallel loop, or what was reported of it, cannot be used.
    Loop,
    /// The description of a workflow cannot be used.
    Workflow,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// What is wrong, where, and what was expected.
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

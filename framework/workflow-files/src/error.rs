//! The one error type of the formats, and where in a file something is.

use std::fmt;

/// Text from a file as an error shows it.
pub(crate) use armature_text::quoted as shown;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a file could not be read, or a description not be made.
///
/// It is shown as `file: place: message`; the message says what is there and what was expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    place: String,
    message: String,
}

/// What sort of problem an [`Error`] is; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The file is in no format that is known.
    Format,
    /// The file's version of its format is not read.
    Version,
    /// The file breaks its format's grammar.
    Syntax,
    /// A value is missing, or cannot be used.
    Value,
    /// The tasks do not form a workflow: a cycle, a task that is unknown or there twice.
    Graph,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, place: impl fmt::Display, message: impl Into<String>) -> Self {
        Error { kind, file: String::new(), place: place.to_string(), message: message.into() }
    }

    pub(crate) fn in_file(mut self, file: &str) -> Self {
        self.file = file.to_string();
        self
    }

    /// What sort of problem this is.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Line (`line 7`) or path (`workflow.tasks[3].parents[0]`) of the problem; empty where it has none.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// What is there, and what was expected.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for part in [&self.file, &self.place] {
            if !part.is_empty() {
                write!(f, "{}: ", armature_text::line(part))?;
            }
        }
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Where something stands in its file. It is made for every task and edge, hence small; it becomes text in an error only.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place {
    /// A line, from 1.
    Line(usize),
    /// An element of a list.
    Element(&'static str, usize),
    /// An element of a list in a field of an element of a list.
    Inner(&'static str, usize, &'static str, usize),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Line(line) => write!(f, "line {line}"),
            Place::Element(list, element) => write!(f, "{list}[{element}]"),
            Place::Inner(list, element, field, inner) => write!(f, "{list}[{element}].{field}[{inner}]"),
        }
    }
}

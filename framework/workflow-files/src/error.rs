//! Error type of the crate, and positions in a file.

use std::fmt;

/// Shortens and quotes text of a file for an error message.
pub(crate) use armature_text::quoted as shown;

/// Result of this crate's calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of reading a file or building a description.
///
/// The error is displayed as `file: place: message`. The message names the value found and the value expected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    kind: ErrorKind,
    file: String,
    place: String,
    message: String,
}

/// Kind of an [`Error`]. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The format of the file is unknown.
    Format,
    /// The file's version of its format is not supported.
    Version,
    /// The file violates the grammar of its format.
    Syntax,
    /// A value is missing or invalid.
    Value,
    /// The tasks do not form a workflow: a cycle, an unknown task or a duplicate task.
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

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the line (`line 7`) or path (`workflow.tasks[3].parents[0]`) of the error; empty if it has none.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Returns the message: the value found and the value expected.
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

/// Position of an error in a file. Every task and edge of the file has one until the file has been checked, so the type is small. It becomes text
/// only for an error message.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SourceLocation {
    /// A line of the file, counted from 1.
    Line(usize),
    /// An element of a list in the file: name of the list, and index of the element.
    Element(&'static str, usize),
    /// An element of a list within an element of another list: name and index in the outer list, then name and index in the inner list.
    Inner(&'static str, usize, &'static str, usize),
}

impl fmt::Display for SourceLocation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SourceLocation::Line(line) => write!(f, "line {line}"),
            SourceLocation::Element(list, element) => write!(f, "{list}[{element}]"),
            SourceLocation::Inner(list, element, field, inner) => {
                write!(f, "{list}[{element}].{field}[{inner}]")
            }
        }
    }
}

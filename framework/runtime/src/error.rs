//! Error type of all functions of the runtime.

use std::fmt;
use std::sync::Arc;

use armature_text::{line, shown};
use serde::{Deserialize, Serialize};

/// Error type of user code: any error that can be sent between threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Result of the functions of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of a run.
///
/// The type is opaque: read it with [`kind`](Error::kind), [`rank`](Error::rank), [`stage`](Error::stage) and [`item`](Error::item), or
/// display it. An error from user code always has rank, stage and item.
///
/// The error that user code returned is the [`source`](std::error::Error::source), and [`downcast_ref`](Error::downcast_ref) returns it as
/// its own type. It is only available in the process in which it arose. Other processes get its text: [`message`](Error::message) has the
/// texts of the error and of all its causes on every rank.
pub struct Error {
    // The fields are boxed, so that a `Result` on the path of every message stays one word wide.
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    rank: Option<usize>,
    stage: Option<String>,
    item: Option<u64>,
    location: ErrorLocation,
    cause: Option<Arc<dyn Cause>>,
    is_printed: bool,
}

/// Error of any type that user code returned.
pub(crate) trait Cause: Send + Sync {
    fn error(&self) -> Option<&(dyn std::error::Error + 'static)>;
}

/// Part of the program where an error arose: stage, pipeline, farm, loop or workflow. It determines the nouns in the error message.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ErrorLocation {
    Stage,
    Pipeline,
    Farm,
    Loop,
    Workflow,
}

impl ErrorLocation {
    fn nouns(self) -> (&'static str, &'static str) {
        match self {
            ErrorLocation::Stage => ("stage", "item"),
            ErrorLocation::Pipeline => ("pipeline", "item"),
            ErrorLocation::Farm => ("farm", "task"),
            ErrorLocation::Loop => ("loop", "unit"),
            ErrorLocation::Workflow => ("workflow", "task"),
        }
    }
}

/// Exit code of a job that was asked to stop and has kept what it can resume from.
pub const STOPPED: u8 = 85;

/// Kind of an [`Error`]. New kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting, an argument or an environment variable has a value that cannot be used.
    Config,
    /// A mapping of stages to ranks names stages or ranks that do not exist, or breaks a rule of the pipeline.
    Mapping,
    /// A file could not be read or written.
    Io,
    /// The message layer failed, or was started in a way that cannot work.
    Transport,
    /// A message from another rank could not be decoded.
    Wire,
    /// User code returned an `Err`.
    User,
    /// User code panicked.
    Panic,
    /// Another rank failed; the message names the rank and its error.
    Peer,
    /// A wait reached its limit; the message names the rank that waited and describes what the rank waited for.
    Timeout,
    /// The job was asked to stop, by a signal or a file, and has ended in order. The message describes which results are kept.
    Stopped,
}

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = match kind {
            // Errors of the kinds `Config`, `Mapping` and `Io` contain paths and text from files, so control characters in their
            // messages are escaped.
            ErrorKind::Config | ErrorKind::Mapping | ErrorKind::Io => line(message.into()),
            _ => message.into(),
        };
        let inner = Inner {
            kind,
            message,
            rank: None,
            stage: None,
            item: None,
            location: ErrorLocation::Stage,
            cause: None,
            is_printed: false,
        };
        Error { inner: Box::new(inner) }
    }

    pub(crate) fn caused_by(mut self, cause: impl Cause + 'static) -> Self {
        self.inner.cause = Some(Arc::new(cause));
        self
    }

    pub(crate) fn at_rank(self, rank: usize) -> Self {
        // The text of a `Peer` error already names the rank that failed, so no rank is added.
        if self.inner.kind == ErrorKind::Peer { self } else { self.of_rank(rank) }
    }

    pub(crate) fn of_rank(mut self, rank: usize) -> Self {
        self.inner.rank.get_or_insert(rank);
        self
    }

    /// Marks the error as already written to standard error by the rank on which it arose.
    pub(crate) fn printed(mut self) -> Self {
        self.inner.is_printed = true;
        self
    }

    pub(crate) fn is_printed(&self) -> bool {
        self.inner.is_printed
    }

    pub(crate) fn in_stage(mut self, stage: &str) -> Self {
        self.inner.stage.get_or_insert_with(|| stage.to_string());
        self
    }

    pub(crate) fn in_pipeline(self, name: &str) -> Self {
        self.in_location(ErrorLocation::Pipeline, name)
    }

    pub(crate) fn in_farm(self, farm: &str) -> Self {
        self.in_location(ErrorLocation::Farm, farm)
    }

    pub(crate) fn in_loop(self, name: &str) -> Self {
        self.in_location(ErrorLocation::Loop, name)
    }

    pub(crate) fn in_workflow(self, name: &str) -> Self {
        self.in_location(ErrorLocation::Workflow, name)
    }

    fn in_location(mut self, location: ErrorLocation, name: &str) -> Self {
        if self.inner.stage.is_none() {
            self.inner.location = location;
        }
        self.in_stage(name)
    }

    /// Sets the number of the item, task, row or index that user code processed when the error arose, counted from 0 in the order of
    /// the source. A number that is already set is kept.
    pub(crate) fn on_item(mut self, item: u64) -> Self {
        self.inner.item.get_or_insert(item);
        self
    }

    /// Returns the kind of the error.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// Returns the exit code for a program that ends with this error: [85](crate::job_status::STOPPED) if the job was asked to stop, otherwise
    /// 1. [`armature::exit_code`](crate::exit_code()) does this for a `main` that returns an `ExitCode`.
    pub fn exit_code(&self) -> u8 {
        if self.inner.kind == ErrorKind::Stopped { STOPPED } else { 1 }
    }

    /// Returns the message without rank, stage and item.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// Returns the rank on which the error arose, if it is known.
    pub fn rank(&self) -> Option<usize> {
        self.inner.rank
    }

    /// Returns the name of the stage in which the error arose, or of the pipeline, farm, loop or workflow.
    pub fn stage(&self) -> Option<&str> {
        self.inner.stage.as_deref()
    }

    /// Returns the number of the item that was being processed when the error arose: the task in a farm or workflow, the row or index in a loop.
    pub fn item(&self) -> Option<u64> {
        self.inner.item
    }
}

impl Error {
    /// Returns the error that user code returned, if it is an `E` and arose in this process.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let config = armature::Config::new();
    /// let error = armature::run(&config, |session| {
    ///     let texts = Pipeline::source("texts", || ["12", "x"].map(String::from));
    ///     texts.try_map("parse", |text: String| Ok(text.parse::<u32>()?)).for_each(session, "out", drop)?;
    ///     Ok(())
    /// });
    /// let error = error.unwrap_err();
    /// assert!(error.downcast_ref::<std::num::ParseIntError>().is_some());
    /// assert_eq!((error.stage(), error.item()), (Some("parse"), Some(1)));
    /// ```
    pub fn downcast_ref<E: std::error::Error + 'static>(&self) -> Option<&E> {
        std::error::Error::source(self)?.downcast_ref()
    }
}

impl Clone for Error {
    fn clone(&self) -> Self {
        Error { inner: self.inner.clone() }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, message, rank, stage, item, location, cause: _, is_printed: _ } = &*self.inner;
        let (location, thing) = location.nouns();
        if let Some(rank) = rank {
            write!(f, "rank {rank}: ")?;
        }
        if let Some(stage) = stage {
            write!(f, "{location} {}: ", shown(stage))?;
        }
        if let Some(item) = item {
            write!(f, "{thing} {item}: ")?;
        }
        if *kind == ErrorKind::Panic {
            write!(f, "panicked: ")?;
        }
        f.write_str(message)
    }
}

// `Debug` is as readable as `Display`, because `main` prints a returned error with `Debug`.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} [{:?}]", self.inner.kind)
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.inner.cause.as_ref()?.error()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_names_rank_stage_and_item_in_that_order() {
        let e = Error::new(ErrorKind::Panic, "index 7 out of range").on_item(12).in_stage("seg").at_rank(3);
        assert_eq!(e.to_string(), "rank 3: stage seg: item 12: panicked: index 7 out of range");
        assert_eq!(e.kind(), ErrorKind::Panic);
    }

    #[test]
    fn external_text_is_escaped_to_one_line() {
        let e = Error::new(ErrorKind::Io, "cannot read a\n\u{1b}b: no").in_stage("seg\n\u{2028}x");
        assert_eq!(e.to_string(), r"stage seg\n\u{2028}x: cannot read a\n\u{1b}b: no");
        assert_eq!(e.stage(), Some("seg\n\u{2028}x"));
        assert_eq!(Error::new(ErrorKind::User, "two\nlines").to_string(), "two\nlines");
    }

    #[test]
    fn items_are_named_after_the_skeleton() {
        let e = Error::new(ErrorKind::User, "7 is odd").on_item(2).in_farm("halve").at_rank(1);
        assert_eq!(
            (e.to_string().as_str(), e.stage()),
            ("rank 1: farm halve: task 2: 7 is odd", Some("halve"))
        );
        let e = Error::new(ErrorKind::User, "no").in_stage("seg").in_farm("halve");
        assert_eq!(e.to_string(), "stage seg: no");
        let e = Error::new(ErrorKind::User, "no pivot").on_item(7).in_loop("sor").at_rank(1);
        assert_eq!(e.to_string(), "rank 1: loop sor: unit 7: no pivot");
    }

    #[test]
    fn first_reported_rank_is_kept() {
        let e = Error::new(ErrorKind::User, "no").at_rank(1).at_rank(2);
        assert_eq!(e.rank(), Some(1));
    }
}

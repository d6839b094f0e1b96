//! The one error type of the runtime.

use std::fmt;
use std::sync::Arc;

use armature_text::{line, shown};

/// What user code may return as its error: anything that can be shown and sent between threads.
pub type BoxError = Box<dyn std::error::Error + Send + Sync + 'static>;

/// Result of the runtime's own calls.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a run could not go on.
///
/// The type is opaque: read it with [`kind`](Error::kind), [`rank`](Error::rank), [`stage`](Error::stage)
/// and [`item`](Error::item), or show it. An error that left user code always carries all three.
///
/// What user code returned as its error is the [`source`](std::error::Error::source), and [`downcast_ref`](Error::downcast_ref) gives it as
/// its own type. Only the process in which it arose has it: what other processes get is its text, with the texts of its causes, which
/// [`message`](Error::message) has everywhere.
pub struct Error {
    // Boxed, so that a `Result` on the path of every message stays one word wide.
    inner: Box<Inner>,
}

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    rank: Option<usize>,
    stage: Option<String>,
    item: Option<u64>,
    place: Place,
    cause: Option<Arc<dyn Cause>>,
}

/// What user code returned as its error.
pub(crate) trait Cause: Send + Sync {
    /// The error as it was returned.
    fn error(&self) -> Option<&(dyn std::error::Error + 'static)>;
}

/// What an error calls a stage, and what an item.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    Stage,
    Pipeline,
    Farm,
    Loop,
    Workflow,
}

impl Place {
    /// The words for the place and for what is done there.
    fn words(self) -> (&'static str, &'static str) {
        match self {
            Place::Stage => ("stage", "item"),
            Place::Pipeline => ("pipeline", "item"),
            Place::Farm => ("farm", "task"),
            Place::Loop => ("loop", "unit"),
            Place::Workflow => ("workflow", "task"),
        }
    }
}

/// What sort of failure an [`Error`] is; new kinds may be added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A setting, an argument or an environment variable has a value that cannot be used.
    Config,
    /// A mapping names stages or ranks that do not exist, or breaks a rule of the pipeline.
    Mapping,
    /// A file could not be read or written.
    Io,
    /// The message layer failed, or was started in a way that cannot work.
    Transport,
    /// A frame from another rank could not be understood.
    Wire,
    /// User code returned an `Err`.
    User,
    /// User code panicked.
    Panic,
    /// Another rank failed; the message says which and why.
    Peer,
    /// A wait reached its limit; the message says who waited for whom.
    Timeout,
    /// The run was asked to stop by a signal.
    Interrupted,
}

impl Error {
    /// An error of the given kind. The message says what is wrong, where, and what was expected.
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = match kind {
            // These messages contain paths and text from files, which must not act on a terminal or a log.
            ErrorKind::Config | ErrorKind::Mapping | ErrorKind::Io => line(message.into()),
            _ => message.into(),
        };
        let inner =
            Inner { kind, message, rank: None, stage: None, item: None, place: Place::Stage, cause: None };
        Error { inner: Box::new(inner) }
    }

    /// The same error, with what user code returned.
    pub(crate) fn caused_by(mut self, cause: impl Cause + 'static) -> Self {
        self.inner.cause = Some(Arc::new(cause));
        self
    }

    /// The same error, with the rank on which it happened (kept if it is known already).
    pub(crate) fn at_rank(mut self, rank: usize) -> Self {
        self.inner.rank.get_or_insert(rank);
        self
    }

    /// The same error, with the stage in which it happened (kept if it is known already).
    pub(crate) fn in_stage(mut self, stage: &str) -> Self {
        self.inner.stage.get_or_insert_with(|| stage.to_string());
        self
    }

    /// The same error, with the pipeline as a whole to which it belongs (kept if a place is known already).
    pub(crate) fn in_pipeline(self, name: &str) -> Self {
        self.in_place(Place::Pipeline, name)
    }

    /// The same error, with the farm in which it happened (kept if a place is known already).
    pub(crate) fn in_farm(self, farm: &str) -> Self {
        self.in_place(Place::Farm, farm)
    }

    /// The same error, with the loop in which it happened (kept if a place is known already).
    pub(crate) fn in_loop(self, name: &str) -> Self {
        self.in_place(Place::Loop, name)
    }

    /// The same error, with the workflow in which it happened (kept if a place is known already).
    pub(crate) fn in_workflow(self, name: &str) -> Self {
        self.in_place(Place::Workflow, name)
    }

    fn in_place(mut self, place: Place, name: &str) -> Self {
        if self.inner.stage.is_none() {
            self.inner.place = place;
        }
        self.in_stage(name)
    }

    /// The same error, with the number of the item, task or unit (from 0, in the source's order) that was processed.
    pub(crate) fn on_item(mut self, item: u64) -> Self {
        self.inner.item.get_or_insert(item);
        self
    }

    /// What sort of failure this is.
    pub fn kind(&self) -> ErrorKind {
        self.inner.kind
    }

    /// The message alone, without rank, stage and item.
    pub fn message(&self) -> &str {
        &self.inner.message
    }

    /// The rank on which it happened, if it is known.
    pub fn rank(&self) -> Option<usize> {
        self.inner.rank
    }

    /// The stage in which it happened, or the pipeline, farm, loop or workflow, if it happened in one.
    pub fn stage(&self) -> Option<&str> {
        self.inner.stage.as_deref()
    }

    /// The number of the item that was processed, if there was one; in a farm or a workflow the task, in a loop the unit.
    pub fn item(&self) -> Option<u64> {
        self.inner.item
    }
}

impl Error {
    /// What user code returned as its error, if it is an `E` and arose in this process.
    ///
    /// ```
    /// use armature::pipeline::Pipeline;
    ///
    /// let config = armature::Config::new();
    /// let error = armature::run(&config, |session| {
    ///     Pipeline::source("texts", || ["12", "x"]).try_map("parse", str::parse::<u32>).for_each("out", drop).run(session)?;
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
        let Inner { kind, message, rank, stage, item, place, cause: _ } = &*self.inner;
        let (place, thing) = place.words();
        if let Some(rank) = rank {
            write!(f, "rank {rank}: ")?;
        }
        if let Some(stage) = stage {
            write!(f, "{place} {}: ", shown(stage))?;
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

// `main` that returns an `Error` prints it with `Debug`: a person reads it, so it is the same text.
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
    fn text_from_outside_is_one_line() {
        let e = Error::new(ErrorKind::Io, "cannot read a\n\u{1b}b: no").in_stage("seg\n\u{2028}x");
        assert_eq!(e.to_string(), r"stage seg\n\u{2028}x: cannot read a\n\u{1b}b: no");
        assert_eq!(e.stage(), Some("seg\n\u{2028}x"));
        // Lines of the user's own message stay.
        assert_eq!(Error::new(ErrorKind::User, "two\nlines").to_string(), "two\nlines");
    }

    #[test]
    fn a_farm_has_tasks() {
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
    fn the_first_place_named_is_kept() {
        let e = Error::new(ErrorKind::User, "no").at_rank(1).at_rank(2);
        assert_eq!(e.rank(), Some(1));
    }
}

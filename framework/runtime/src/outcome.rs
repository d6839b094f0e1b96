//! Results of a run of a pipeline, farm, loop or workflow.

/// Result of a run of a pipeline, farm, loop or workflow on this rank: a value and a summary on rank 0, nothing on other ranks.
///
/// Methods whose names end in `on_all` return the value on every rank, without an `Outcome`.
///
/// ```
/// use armature::farm::Farm;
///
/// armature::run(&armature::Config::new().ranks(3), |session| {
///     let squares = Farm::new("square", |x: u64| x * x).collect(session, 0..5)?;
///     assert_eq!(squares.summary().is_some(), session.is_root());
///     if let Some(squares) = squares.on_root() {
///         assert_eq!(squares, [0, 1, 4, 9, 16]);
///     }
///     Ok(())
/// })?;
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome<T, S> {
    root: Option<(T, S)>,
}

impl<T, S> Outcome<T, S> {
    pub(crate) fn new(root: Option<(T, S)>) -> Self {
        Outcome { root }
    }

    /// Returns the value on rank 0, `None` on the other ranks.
    pub fn on_root(self) -> Option<T> {
        self.root.map(|(value, _)| value)
    }

    /// Returns the summary of the run on rank 0, `None` on the other ranks.
    pub fn summary(&self) -> Option<&S> {
        self.root.as_ref().map(|(_, summary)| summary)
    }

    /// Returns the summary of the run on rank 0, without the value; `None` on the other ranks.
    pub fn into_summary(self) -> Option<S> {
        self.root.map(|(_, summary)| summary)
    }

    /// Returns the value and the summary of the run on rank 0, `None` on the other ranks.
    pub fn into_parts(self) -> Option<(T, S)> {
        self.root
    }
}

impl<S> Outcome<(), S> {
    pub(crate) fn of(summary: Option<S>) -> Self {
        Outcome::new(summary.map(|summary| ((), summary)))
    }
}

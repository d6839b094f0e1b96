//! What a look at the number of workers sees.

use std::time::Duration;

/// The farm at the time of a look.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Duration,
    /// Ranks that do tasks, and ranks that could.
    pub(crate) workers: usize,
    pub(crate) most: usize,
    /// Whether rank 0 is one of them.
    pub(crate) computes: bool,
    /// Whether it is a stream and not a set of tasks.
    pub(crate) stream: bool,
    /// Whether sub-masters may be made.
    pub(crate) may_split: bool,
}

impl Situation {
    /// What is repeated, in words.
    pub(super) fn what(&self) -> &'static str {
        if self.stream { "a task" } else { "an iteration" }
    }
}

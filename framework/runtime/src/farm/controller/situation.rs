//! State of the farm in a check of the number of workers.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Duration,
    /// Number of active ranks, and of ranks that could be active.
    pub(crate) workers: usize,
    pub(crate) most: usize,
    /// True if rank 0 runs tasks.
    pub(crate) computes: bool,
    /// True for a stream, false for a set of tasks.
    pub(crate) stream: bool,
    /// True if sub-masters may be introduced.
    pub(crate) may_split: bool,
}

impl Situation {
    /// Names the unit of work that is repeated.
    pub(super) fn what(&self) -> &'static str {
        if self.stream { "a task" } else { "an iteration" }
    }
}

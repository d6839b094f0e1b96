//! State of the farm in a check of the number of workers.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Situation {
    pub(crate) now: Duration,
    pub(crate) workers: usize,
    pub(crate) most: usize,
    pub(crate) computes: bool,
    /// True in a stream of tasks; false between two iterations, each of which runs a set of tasks.
    pub(crate) stream: bool,
    pub(crate) may_split: bool,
}

impl Situation {
    /// Returns the noun for log events: the unit to which a predicted time applies (a task of a stream, or an iteration).
    pub(super) fn what(&self) -> &'static str {
        if self.stream { "a task" } else { "an iteration" }
    }
}

//! Progress of a pipeline's stream of items.

use std::time::Duration;

/// Numbers of items and batches that have entered and left a pipeline at one point in time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) now: Duration,
    /// Time since the start of the run.
    pub(crate) elapsed: Duration,
    /// Number of source items that have reached the sink.
    pub(crate) items: u64,
    /// Number of items drawn from the source.
    pub(crate) drawn: u64,
    /// Number of items that have not reached the sink, including those not drawn yet, if the length of the source is known.
    pub(crate) left: Option<u64>,
    /// Number of source batches of which all output has reached the sink, and number of batches drawn from the source.
    pub(crate) batches: (u64, u64),
}

impl Progress {
    /// Returns the number of drawn items that have not reached the sink.
    pub(crate) fn in_flight(&self) -> u64 {
        self.drawn.saturating_sub(self.items)
    }
}

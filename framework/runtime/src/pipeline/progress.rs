//! Progress of a stream.

use std::time::Duration;

/// Progress of a stream at one time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) now: Duration,
    /// Time since the start of the run.
    pub(crate) elapsed: Duration,
    /// Items that have reached the sink.
    pub(crate) items: u64,
    /// Items drawn from the source.
    pub(crate) drawn: u64,
    /// Items that have not reached the sink, if the source knows their number.
    pub(crate) left: Option<u64>,
    /// Number of batches that have reached the sink, and of batches drawn.
    pub(crate) batches: (u64, u64),
}

impl Progress {
    /// Returns the number of drawn items that have not reached the sink.
    pub(crate) fn in_flight(&self) -> u64 {
        self.drawn.saturating_sub(self.items)
    }
}

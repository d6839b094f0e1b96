//! Progress of a pipeline: items and batches that have entered and left it.

use std::time::Duration;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) now: Duration,
    pub(crate) elapsed: Duration,
    /// Number of source items all of whose output has reached the sink.
    pub(crate) items: u64,
    pub(crate) drawn: u64,
    /// Number of source items that are not done, including those not drawn yet, if the length of the source is known.
    pub(crate) left: Option<u64>,
    /// Number of source batches all of whose output has reached the sink, and number of batches drawn from the source.
    pub(crate) batches: (u64, u64),
}

impl Progress {
    pub(crate) fn in_flight(&self) -> u64 {
        self.drawn.saturating_sub(self.items)
    }
}

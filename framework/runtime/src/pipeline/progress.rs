//! How far a stream is.

use std::time::Duration;

/// A stream as it stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Progress {
    pub(crate) now: Duration,
    /// Since the run began.
    pub(crate) elapsed: Duration,
    /// Items that have reached the sink.
    pub(crate) items: u64,
    /// Items that were drawn.
    pub(crate) drawn: u64,
    /// Items still to come, if the source knows.
    pub(crate) left: Option<u64>,
    /// Batches that have reached the sink, and batches drawn.
    pub(crate) batches: (u64, u64),
}

impl Progress {
    /// Items drawn that have not reached the sink.
    pub(crate) fn in_flight(&self) -> u64 {
        self.drawn.saturating_sub(self.items)
    }
}

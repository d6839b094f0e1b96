//! How much a batch holds.

use std::time::Duration;

/// Items drawn, or made, between two looks at the clock, at most: a look costs as much as a few small items.
pub(crate) const CLOCK_EVERY: usize = 256;

/// When a batch of the source, or a piece of one, is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) items: usize,
    /// No further item is drawn when this long has passed since the first.
    pub(crate) time: Option<Duration>,
}

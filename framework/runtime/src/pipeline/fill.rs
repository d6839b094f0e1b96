//! Limits at which a batch is full.

use std::time::Duration;

/// Maximum number of items drawn from the source, or made by a stage, between two readings of the clock. A reading costs as much as a few small
/// items.
pub(crate) const CLOCK_EVERY: usize = 256;

/// Limits at which a batch of the source, or a piece of a batch, is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) items: usize,
    /// Maximum time between the first item of the batch and the last one; `None` for no limit.
    pub(crate) time: Option<Duration>,
}

//! Limits on the number of items in a batch and on the time in which the batch is filled.

use std::time::Duration;

/// Maximum number of items that are drawn from the source, or made by a stage, between two readings of the clock: a reading costs as much as a few
/// small items.
pub(crate) const CLOCK_EVERY: usize = 256;

/// Limits at which a batch of the source, or a part of a stage's output, is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Fill {
    pub(crate) items: usize,
    /// Maximum time between the first item of the batch and the last one; `None` for no limit.
    pub(crate) time: Option<Duration>,
}

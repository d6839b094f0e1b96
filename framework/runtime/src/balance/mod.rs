//! Measurements of ranks and links, and limits of their cost, which the balancing of all skeletons uses.

pub(crate) mod link_probe;
pub(crate) mod probe;

use std::time::Duration;

/// Reciprocal of the fraction of time that balancing may take: of rank 0's time for planning, and of the run for link probes. The fraction of one per
/// cent is not noticeable; with a smaller fraction, changes come later.
const PARTS_FOR_LOOKS: u32 = 100;

/// Returns true if balancing may take the time `spent` of the time `time`: at most one per cent.
pub(crate) fn is_affordable(spent: Duration, time: Duration) -> bool {
    spent.saturating_mul(PARTS_FOR_LOOKS) <= time
}

//! Measurements of the speeds of ranks and links, for the load balancing of pipelines, loops and workflows, and a limit of the time that they may
//! take.

pub(crate) mod link_probe;
pub(crate) mod probe;

use std::time::Duration;

/// Reciprocal of the largest fraction of time that load balancing may take: 1 % of rank 0's time for planning, and 1 % of the run for link probes.
/// One per cent is not noticeable; with a smaller fraction, the load would be rebalanced later.
const PARTS_FOR_LOOKS: u32 = 100;

/// Returns how much of the time `time` balancing may take: one per cent.
pub(crate) fn affordable(time: Duration) -> Duration {
    time / PARTS_FOR_LOOKS
}

/// Returns true if balancing may take the time `spent` of the time `time`.
pub(crate) fn is_affordable(spent: Duration, time: Duration) -> bool {
    spent <= affordable(time)
}

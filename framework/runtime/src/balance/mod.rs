//! What all balancing stands on, whichever skeleton balances.

pub(crate) mod link_probe;
pub(crate) mod probe;

use std::time::Duration;

/// Looks for something better may take one part in this many of rank 0's time, and round trips that are made for them one part
/// of the run: a per cent is not felt. With a smaller number balancing costs more, with a larger one it finds changes later.
const PARTS_FOR_LOOKS: u32 = 100;

/// Whether what took `spent` is little enough of `time`.
pub(crate) fn is_affordable(spent: Duration, time: Duration) -> bool {
    spent.saturating_mul(PARTS_FOR_LOOKS) <= time
}

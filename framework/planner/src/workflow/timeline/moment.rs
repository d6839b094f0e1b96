//! Times in seconds that can be sorted and compared.

use std::cmp::Ordering;

/// Time in seconds, with a total order also for NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) struct Moment(pub(in crate::workflow) f64);

impl Eq for Moment {}

impl Ord for Moment {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl PartialOrd for Moment {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

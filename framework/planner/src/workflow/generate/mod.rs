//! Random workflows and clusters, and those of the papers.

mod clusters;
mod families;
mod random;

pub use clusters::paper_cluster;
pub use families::Family;
pub use random::{RandomCluster, RandomWorkflow};

use crate::random::Random;

/// Draws a whole number from `range`, uniformly.
fn whole(random: &mut Random, range: std::ops::RangeInclusive<u64>) -> u64 {
    let (low, high) = range.into_inner();
    let width = (high - low + 1) as f64;
    low + ((random.uniform() * width) as u64).min(high - low)
}

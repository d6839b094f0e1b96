//! Generators of random workflows and clusters, and of those in the papers of Kulagina, Meyerhenke and Benoit (2024
//! and 2025).

mod clusters;
mod families;
#[cfg(test)]
mod problem;
mod random;

use armature_planner::random::Random;
pub use clusters::paper_cluster;
pub use families::Family;
#[cfg(test)]
pub use problem::problem;
pub use random::{RandomCluster, RandomWorkflow};

fn whole(random: &mut Random, range: std::ops::RangeInclusive<u64>) -> u64 {
    let (low, high) = range.into_inner();
    let width = (high - low + 1) as f64;
    low + ((random.uniform() * width) as u64).min(high - low)
}

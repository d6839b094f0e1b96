//! Random distribution of the units (rows or indices) of a loop over ranks, for tests.

use armature_planner::loops::distribute;
use armature_planner::random::Random;

/// Returns random numbers of units (rows or indices), one for each of `ranks` ranks, whose sum is `units`. Some are far smaller than others; each
/// rank gets at least one unit if there are enough.
pub(super) fn random_shares(random: &mut Random, units: u64, ranks: usize) -> Vec<u64> {
    let shares: Vec<f64> = (0..ranks).map(|_| random.uniform().powi(3)).collect();
    distribute(units, &shares, 1)
}

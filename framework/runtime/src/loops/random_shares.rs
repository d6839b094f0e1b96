//! Shares drawn at random, for tests.

use armature_planner::loops::distribute;
use armature_planner::random::Random;

/// Random shares of `units` units, some far smaller than others, at least one each where there are enough.
pub(super) fn random_shares(random: &mut Random, units: u64, ranks: usize) -> Vec<u64> {
    let shares: Vec<f64> = (0..ranks).map(|_| random.uniform().powi(3)).collect();
    distribute(units, &shares, 1)
}

//! Fraction of a core that a rank gets if other threads compete for the core.

use serde::{Deserialize, Serialize};

use crate::range;

/// Seconds of computing after which an old measurement counts half. In this time a scheduler gives a thread its core about a hundred times, and a
/// cgroup quota has several periods.
const HALF_LIFE: f64 = 0.3;

/// Fraction of a core that a rank gets: of the time in which the rank is ready to compute, the part in which it has a core.
///
/// An item takes longer on a loaded rank, and also in a stage with more work. The core share distinguishes the two cases: the time in which the
/// thread of a rank was ready without a core is not work of the stage, and affects all stages of the rank equally.
///
/// ```
/// use armature_planner::estimate::CoreShare;
///
/// let mut share = CoreShare::default();
/// assert_eq!(share.value(), None);
/// (0..1000).for_each(|_| share.add(0.002, 0.0));
/// assert_eq!(share.value(), Some(1.0));
/// // Somebody else computes on the same core: of 4 ms this rank has 2.
/// (0..1000).for_each(|_| share.add(0.004, 0.002));
/// assert!((share.value().unwrap() - 0.5).abs() < 0.01);
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreShare {
    /// Seconds in which the rank was ready to compute, where older seconds count less. The field `lost` counts those
    /// of them in which the rank had no core.
    took: f64,
    lost: f64,
}

impl CoreShare {
    /// Records that the rank was ready to compute for `took` seconds, of which it had no core for `lost` seconds. Negative times and NaN are
    /// ignored, and `lost` is limited to `took`.
    pub fn add(&mut self, took: f64, lost: f64) {
        if !(took > 0.0 && took.is_finite() && lost >= 0.0) {
            return;
        }
        let keep = (-took / HALF_LIFE).exp2();
        self.took = self.took * keep + took;
        self.lost = self.lost * keep + lost.min(took);
    }

    /// Discards all earlier measurements, which are outdated, and records a new one.
    pub fn restart(&mut self, took: f64, lost: f64) {
        *self = CoreShare::default();
        self.add(took, lost);
    }

    /// Returns the core share of the rank, more than 0 and at most 1; `None` before any computation.
    pub fn value(&self) -> Option<f64> {
        (self.took > 0.0).then(|| (1.0 - self.lost / self.took).clamp(LEAST, 1.0))
    }
}

/// Returns the average number of threads of other programs that compete with a group of ranks for `cores` cores; 0 if the ranks compete only with
/// each other. `shares` are the fractions of a core that each rank gets while it is ready to compute, and `active` the fractions of time in which
/// each rank is ready to compute.
///
/// With a fair scheduler, a rank that is ready together with k other ranks and n foreign threads expects `min(1, cores / (1 + k + n))` of a core,
/// averaged over k, where the ranks are active independently of each other. The result is the n at which the expected shares, weighted by the
/// activity of the ranks, equal the measured ones.
///
/// Fractions above 1 count as 1, and negative fractions and NaN as 0. The result is 0 if `cores` is not from 1e-60 to 1e60.
///
/// ```
/// use armature_planner::estimate::load_of_others;
///
/// let near = |a: f64, b: f64| (a - b).abs() < 1e-6;
/// // Two ranks that always compute, on one core: half each is all that there is.
/// assert_eq!(load_of_others(&[0.5, 0.5], &[1.0, 1.0], 1.0), 0.0);
/// // A third one that is none of ours.
/// assert!(near(load_of_others(&[1.0 / 3.0, 1.0 / 3.0], &[1.0, 1.0], 1.0), 1.0));
/// // One of them is parked, and the other has half of the core.
/// assert!(near(load_of_others(&[0.5, 1.0], &[1.0, 0.0], 1.0), 1.0));
/// ```
pub fn load_of_others(shares: &[f64], active: &[f64], cores: f64) -> f64 {
    if !range::is_positive(cores) {
        return 0.0;
    }
    let parts = |values: &[f64]| -> Vec<f64> {
        values.iter().map(|&part| range::amount_or_nearest(part).min(1.0)).collect()
    };
    let (shares, active) = (parts(shares), parts(active));
    let ranks = || shares.iter().zip(&active).map(|(share, active)| (share.max(LEAST), *active));
    let ready: Vec<Vec<f64>> = (0..active.len()).map(|rank| ready_others(rank, &active)).collect();
    // Weighted difference between the measured and the expected core shares if `load` threads of other programs
    // compete; it grows with `load`.
    let beyond = |load: f64| -> f64 {
        let part = |k: usize| f64::min(1.0, cores / (1.0 + k as f64 + load));
        let expected = |ready: &[f64]| -> f64 { ready.iter().enumerate().map(|(k, p)| p * part(k)).sum() };
        ranks().zip(&ready).map(|((share, active), ready)| active * (share - expected(ready))).sum()
    };
    let (mut low, mut high) = (0.0, cores / LEAST);
    if beyond(low) >= 0.0 {
        return 0.0;
    }
    while high - low > range::ROUNDING * (1.0 + low) {
        let middle = 0.5 * (low + high);
        if beyond(middle) < 0.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Returns, for k = 0, 1, …, the probability that k of the ranks other than `rank` are ready to compute at the same
/// time.
fn ready_others(rank: usize, active: &[f64]) -> Vec<f64> {
    let mut ready = vec![1.0];
    for (_, &p) in active.iter().enumerate().filter(|&(other, _)| other != rank) {
        ready.push(0.0);
        for k in (0..ready.len()).rev() {
            let one_less = if k > 0 { ready[k - 1] } else { 0.0 };
            ready[k] = ready[k] * (1.0 - p) + one_less * p;
        }
    }
    ready
}

/// Lower bound of a core share, below the share of a rank that makes any progress.
const LEAST: f64 = 1e-3;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_share_follows_a_load_within_half_a_second() {
        let mut share = CoreShare::default();
        (0..400).for_each(|_| share.add(0.005, 0.0));
        // Another process takes turns with the rank on the core, which the rank has only during every second batch.
        (0..100).for_each(|turn| share.add(0.006, if turn % 2 == 0 { 0.006 } else { 0.0 }));
        assert!((0.4..0.65).contains(&share.value().unwrap()), "{share:?}");
        (0..120).for_each(|_| share.add(0.005, 0.0));
        assert!(share.value().unwrap() > 0.85, "{share:?}");
    }

    #[test]
    fn partly_idle_ranks_do_not_count_as_external_load() {
        // Two ranks share a core, and each is ready to compute half of the time. While ready, a rank gets the whole
        // core or half of it, 0.75 on average.
        assert_eq!(load_of_others(&[0.75, 0.75], &[0.5, 0.5], 1.0), 0.0);
        // Four ranks run on two cores, first without other processes, and then together with four other processes.
        assert_eq!(load_of_others(&[0.5; 4], &[1.0; 4], 2.0), 0.0);
        assert!((load_of_others(&[0.25; 4], &[1.0; 4], 2.0) - 4.0).abs() < 1e-5);
        assert_eq!(load_of_others(&[0.9, 1.0], &[0.0, 0.0], 1.0), 0.0, "nobody has computed");
        // One rank on a shared core gets less than half of it and the other rank more; this difference does not count as load from other programs.
        assert_eq!(load_of_others(&[0.4, 0.6], &[1.0, 1.0], 1.0), 0.0);
    }

    #[test]
    fn starved_rank_implies_a_large_external_load() {
        let load = load_of_others(&[0.0], &[1.0], 1.0);
        assert!(load.is_finite() && load > 900.0, "{load}");
    }

    #[test]
    fn invalid_samples_are_ignored_and_shares_stay_positive() {
        let mut share = CoreShare::default();
        for (took, lost) in [(0.0, 0.0), (-1.0, 0.0), (f64::NAN, 0.0), (1.0, f64::NAN), (1.0, -1.0)] {
            share.add(took, lost);
        }
        assert_eq!(share.value(), None);
        share.add(1.0, 5.0);
        assert!(share.value().unwrap() > 0.0);
        share.restart(0.01, 0.0);
        assert_eq!(share.value(), Some(1.0));
    }
}

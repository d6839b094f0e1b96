//! Expected speeds of ranks that share cores, derived from the fractions of their cores that the ranks have measured.
//!
//! If a rank shares its core with no other rank, its expected speed is its speed on an idle core times the measured fraction; other programs take the
//! rest. Ranks that share cores also compete with each other, but only while they are active. The model therefore estimates, for each group of ranks
//! that share cores, how many threads of other programs compete with them. Against n such threads on one core, a single rank gets 1/(1 + n) of the
//! core, and k ranks that compute at the same time get k/(k + n) together. The planner gets the speed of a single active rank, and a number of cores
//! with which it predicts the same total for all ranks of the group.

use std::time::Duration;

use armature_planner::SharedCores;
use armature_planner::estimate::load_of_others;

use super::metrics::Measurements;
use crate::balance::probe;

/// Half-life in seconds of a rank's measured activity, the fraction of time in which the rank is ready to compute.
const HALF_LIFE: f64 = 0.3;
/// Minimum sum of the activities (fractions of time in which a rank was ready to compute) of the ranks that share cores. Below it, the load by other
/// programs on these cores is not estimated again.
const LEAST_ACTIVITY: f64 = 0.05;
/// If stages compute for more than this fraction of their time, the model assumes that they never wait, for example for a disk or a server.
const COMPUTING: f64 = 0.9;
/// Lower limit for the fraction of time in which stages compute. The number of cores in the planner's input is divided by this fraction, which must
/// not be near zero.
const LEAST_COMPUTING: f64 = 0.01;

/// Last report of one rank: the fraction of its core that it gets, and the fraction of its time in which it needs the core.
#[derive(Clone, Copy, Debug)]
struct Reported {
    share: f64,
    /// Fraction of the recent time in which the rank was ready to compute.
    active: f64,
    /// Total time in seconds in which the rank was ready to compute, at the last report; `at` is the time of that report.
    ready: f64,
    at: Option<Duration>,
    computed: (f64, f64),
}

#[derive(Debug)]
pub(crate) struct CoreSharing {
    groups: Vec<SharedCores>,
    reported: Vec<Reported>,
    /// For each group of ranks that share cores: last estimate of the number of threads of other programs that compete with the ranks.
    loads: Vec<f64>,
}

impl CoreSharing {
    pub(crate) fn new(groups: &[SharedCores], ranks: usize) -> Self {
        let nothing = Reported { share: 1.0, active: 0.0, ready: 0.0, at: None, computed: (0.0, 0.0) };
        CoreSharing {
            groups: groups.to_vec(),
            reported: vec![nothing; ranks],
            loads: vec![0.0; groups.len()],
        }
    }

    /// Adopts the fractions of their cores (`shares`) that ranks measured at the start in the probe (measurement of speeds and links), in which all
    /// ranks compute at the same time.
    pub(crate) fn probed(&mut self, shares: &[f64]) {
        for (reported, &share) in self.reported.iter_mut().zip(shares) {
            reported.share = share;
        }
        for (load, group) in self.loads.iter_mut().zip(&self.groups) {
            let shares: Vec<f64> = group.processors.iter().map(|&r| self.reported[r].share).collect();
            *load = load_of_others(&shares, &vec![1.0; shares.len()], group.cores);
        }
    }

    pub(crate) fn measured(&mut self, rank: usize, measurements: &Measurements, now: Duration) {
        let reported = &mut self.reported[rank];
        // The reported fraction is checked, because a received message may contain any value.
        if let Some(share) = measurements.share.filter(|share| *share > 0.0 && *share <= 1.0) {
            reported.share = share;
        }
        let passed = now.saturating_sub(reported.at.unwrap_or(Duration::ZERO)).as_secs_f64();
        let active = (measurements.ready - reported.ready) / passed;
        if passed > 0.0 && active >= 0.0 {
            let keep = (-passed / HALF_LIFE).exp2();
            reported.active = reported.active * keep + active.min(1.0) * (1.0 - keep);
            (reported.ready, reported.at) = (measurements.ready, Some(now));
        }
        reported.computed = measurements.computed;
    }

    /// Returns the speeds that ranks can expect on their shared cores. `alone` holds the speed of each rank with a core of its own; `hosts` returns
    /// true for ranks that run stages.
    pub(crate) fn speeds(&mut self, mut alone: Vec<f64>, hosts: impl Fn(usize) -> bool) -> Vec<f64> {
        probe::even_out(&mut alone, &self.groups);
        let mut left: Vec<f64> = self.reported.iter().map(|reported| reported.share).collect();
        for (load, group) in self.loads.iter_mut().zip(&self.groups) {
            let reporting = || group.processors.iter().filter(|&&r| self.reported[r].at.is_some());
            // A rank without stages counts as inactive, although it reported activity when it last ran stages.
            let active = |r: usize| if hosts(r) { self.reported[r].active } else { 0.0 };
            let (shares, activity): (Vec<f64>, Vec<f64>) =
                reporting().map(|&r| (self.reported[r].share, active(r))).unzip();
            if activity.iter().sum::<f64>() > LEAST_ACTIVITY {
                *load = load_of_others(&shares, &activity, group.cores);
            } else if reporting().count() > 0 && reporting().all(|&r| !hosts(r)) {
                // None of the ranks that have reported runs stages, so each rank measured its fraction of a core while the other ranks of the group
                // were idle. The load of other programs is therefore estimated separately from each rank's fraction, and the mean is used.
                let alone = shares.iter().map(|&share| load_of_others(&[share], &[1.0], group.cores));
                *load = alone.sum::<f64>() / shares.len() as f64;
            }
            group.processors.iter().for_each(|&r| left[r] = part_of_core(1, group.cores, *load));
        }
        // Only the time in which stages compute depends on the rank's share of its core; the time in which they wait for a disk or a server does not.
        let part = computing(&self.reported);
        alone.iter().zip(&left).map(|(speed, left)| speed / (1.0 - part + part / left)).collect()
    }

    /// Returns the groups of ranks that share cores, as input of the planner, with the loads by other programs that
    /// [`speeds`](Self::speeds) estimated last. The number of cores is divided by the fraction of time in which the stages compute: while
    /// they wait for a disk, for example, another rank has the core.
    pub(crate) fn groups(&self) -> Vec<SharedCores> {
        let of = |(group, &load): (&SharedCores, &f64)| {
            let part =
                f64::max(computing(group.processors.iter().map(|&r| &self.reported[r])), LEAST_COMPUTING);
            let ranks = group.processors.len();
            let together = ranks as f64 * part_of_core(ranks, group.cores, load);
            SharedCores { cores: together / part_of_core(1, group.cores, load) / part, ..group.clone() }
        };
        self.groups.iter().zip(&self.loads).map(of).collect()
    }
}

/// Returns the fraction of a core that each of `ranks` ranks gets if they all compute on `cores` cores and compete with `load` threads of other
/// programs.
fn part_of_core(ranks: usize, cores: f64, load: f64) -> f64 {
    f64::min(1.0, cores / (ranks as f64 + load))
}

/// Returns the fraction of the run time of stages in which they computed. In the rest of the time they waited, for example for a disk or a server.
fn computing<'a>(reported: impl IntoIterator<Item = &'a Reported>) -> f64 {
    let add = |(a, b): (f64, f64), reported: &Reported| (a + reported.computed.0, b + reported.computed.1);
    let (cpu, own) = reported.into_iter().fold((0.0, 0.0), add);
    if own > 0.0 && cpu < COMPUTING * own { f64::max(cpu / own, 0.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn core_sharing() -> CoreSharing {
        let mut core_sharing = CoreSharing::new(&[SharedCores { processors: vec![0, 1], cores: 1.0 }], 3);
        core_sharing.probed(&[0.5, 0.5, 1.0]);
        core_sharing
    }

    fn report(core_sharing: &mut CoreSharing, rank: usize, active: f64, share: f64, seconds: u64) {
        let measurements =
            Measurements { share: Some(share), ready: active * seconds as f64, ..Measurements::default() };
        core_sharing.measured(rank, &measurements, Duration::from_secs(seconds));
    }

    #[track_caller]
    fn assert_near(found: &[f64], expected: &[f64]) {
        let near = |(a, b): (&f64, &f64)| (a - b).abs() < 0.01;
        assert!(
            found.len() == expected.len() && found.iter().zip(expected).all(near),
            "{found:?}, {expected:?}"
        );
    }

    #[test]
    fn core_sharing_of_own_ranks_is_not_external_load() {
        let mut core_sharing = core_sharing();
        assert_near(&core_sharing.speeds(vec![2.0; 3], |_| true), &[2.0; 3]);
        report(&mut core_sharing, 0, 1.0, 0.5, 9);
        report(&mut core_sharing, 1, 1.0, 0.5, 9);
        assert_near(&core_sharing.speeds(vec![2.0; 3], |_| true), &[2.0; 3]);
        // Now one process of another program runs on the core that ranks 0 and 1 share, and one on the core of rank 2.
        report(&mut core_sharing, 0, 1.0, 1.0 / 3.0, 18);
        report(&mut core_sharing, 1, 1.0, 1.0 / 3.0, 18);
        report(&mut core_sharing, 2, 1.0, 0.5, 18);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |_| true), &[0.5; 3]);
        // Against one thread of another program, a single active rank gets half of the core, and ranks 0 and 1 together get two thirds.
        assert_near(&[core_sharing.groups()[0].cores], &[4.0 / 3.0]);
    }

    #[test]
    fn parked_partner_frees_the_core_and_loads_are_detected() {
        let mut core_sharing = core_sharing();
        report(&mut core_sharing, 0, 1.0, 1.0, 9);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |r| r != 1), &[1.0; 3]);
        report(&mut core_sharing, 0, 1.0, 0.5, 18);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |r| r != 1), &[0.5, 0.5, 1.0]);
        // Now neither rank 0 nor rank 1 has stages, and rank 1 has measured that it gets its whole core: the other program has ended.
        report(&mut core_sharing, 0, 0.5, 1.0, 20);
        report(&mut core_sharing, 1, 0.0, 1.0, 20);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |r| r == 2), &[1.0; 3]);
    }

    #[test]
    fn waiting_ranks_leave_core_time_to_others() {
        let mut core_sharing = core_sharing();
        let measurements = Measurements { computed: (0.2, 1.0), ..Measurements::default() };
        core_sharing.measured(0, &measurements, Duration::from_secs(1));
        assert_near(&[core_sharing.groups()[0].cores], &[5.0]);
        // The stages compute for 0.2 s of each second and wait for 0.8 s. If another program competes for the core of rank 2, only the computing
        // takes twice as long there, so a second of the stages takes 1.2 s.
        report(&mut core_sharing, 2, 1.0, 0.5, 9);
        core_sharing.measured(0, &measurements, Duration::from_secs(9));
        assert_near(&core_sharing.speeds(vec![1.0; 3], |_| true)[2..], &[1.0 / 1.2]);
        let measurements = Measurements { computed: (0.95, 1.0), ..Measurements::default() };
        core_sharing.measured(0, &measurements, Duration::from_secs(1));
        assert_near(&[core_sharing.groups()[0].cores], &[1.0]);
    }
}

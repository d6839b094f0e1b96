//! What ranks get of their cores, and what they can expect: from the shares that they measured.
//!
//! A rank with a core of its own is as fast as it would be alone, times its share: what is missing, a load from
//! elsewhere takes. Ranks that share cores take them from each other, too, and only those that are at work do. So what is
//! found for a group is how many threads of others compete with it. Beside n of them a rank alone gets 1 of 1 + n parts
//! of a core, and k ranks that compute at the same time get k of k + n: the more of them, the more. The planner gets
//! the speed of one alone, and the number of cores with which all of them together have what they would have.

use std::time::Duration;

use armature_planner::SharedCores;
use armature_planner::estimate::load_of_others;

use super::metrics::Measurements;
use crate::balance::probe;

/// Seconds after which a rank's activity counts half.
const HALF_LIFE: f64 = 0.3;
/// A group whose ranks are ready for less than this part of the time, added up, leaves what is known of its cores as it was.
const LEAST_ACTIVITY: f64 = 0.05;
/// Stages that compute for more than this part of their time are taken to compute all the time.
const COMPUTING: f64 = 0.9;
/// Ranks that compute for less than this part of their time get as many cores as those that do for this part.
const LEAST_COMPUTING: f64 = 0.01;

/// What one rank has reported of its core.
#[derive(Clone, Copy, Debug)]
struct Reported {
    share: f64,
    /// Which part of the time it was ready to compute, lately.
    active: f64,
    /// The sum of such time at the last message, and when that came.
    ready: f64,
    at: Option<Duration>,
    computed: (f64, f64),
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct CoreSharing {
    groups: Vec<SharedCores>,
    reported: Vec<Reported>,
    /// By group: how many threads of others competed with its ranks when that was last seen.
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

    /// All ranks were probed at the same time, and had `shares`.
    pub(crate) fn probed(&mut self, shares: &[f64]) {
        for (reported, &share) in self.reported.iter_mut().zip(shares) {
            reported.share = share;
        }
        for (load, group) in self.loads.iter_mut().zip(&self.groups) {
            let shares: Vec<f64> = group.processors.iter().map(|&r| self.reported[r].share).collect();
            *load = load_of_others(&shares, &vec![1.0; shares.len()], group.cores);
        }
    }

    /// A rank has reported, `now`, what it measured.
    pub(crate) fn measured(&mut self, rank: usize, measurements: &Measurements, now: Duration) {
        let reported = &mut self.reported[rank];
        // A frame may say anything.
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

    /// Speeds that can be expected of ranks that are as fast as `alone` with a core to themselves; `hosts` says which of
    /// them have stages.
    pub(crate) fn speeds(&mut self, mut alone: Vec<f64>, hosts: impl Fn(usize) -> bool) -> Vec<f64> {
        probe::even_out(&mut alone, &self.groups);
        let mut left: Vec<f64> = self.reported.iter().map(|reported| reported.share).collect();
        for (load, group) in self.loads.iter_mut().zip(&self.groups) {
            let heard = || group.processors.iter().filter(|&&r| self.reported[r].at.is_some());
            // One that has no stage reports nothing, and does nothing.
            let active = |r: usize| if hosts(r) { self.reported[r].active } else { 0.0 };
            let (shares, activity): (Vec<f64>, Vec<f64>) =
                heard().map(|&r| (self.reported[r].share, active(r))).unzip();
            if activity.iter().sum::<f64>() > LEAST_ACTIVITY {
                *load = load_of_others(&shares, &activity, group.cores);
            } else if heard().count() > 0 && heard().all(|&r| !hosts(r)) {
                // They look at their speed one at a time.
                let alone = shares.iter().map(|&share| load_of_others(&[share], &[1.0], group.cores));
                *load = alone.sum::<f64>() / shares.len() as f64;
            }
            group.processors.iter().for_each(|&r| left[r] = part_of_core(1, group.cores, *load));
        }
        // What an item waits for outside takes no longer where less of the core is left.
        let part = computing(&self.reported);
        alone.iter().zip(&left).map(|(speed, left)| speed / (1.0 - part + part / left)).collect()
    }

    /// The groups for the planner, by speeds as [`speeds`](Self::speeds) has last found them: while a rank waits for
    /// something outside, another one has the core.
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

/// What each of a number of ranks gets of a core if they all compute beside `load` threads of others, on these cores.
fn part_of_core(ranks: usize, cores: f64, load: f64) -> f64 {
    f64::min(1.0, cores / (ranks as f64 + load))
}

/// Which part of the time that stages had for themselves they computed; the rest they waited for something outside.
fn computing<'a>(reported: impl IntoIterator<Item = &'a Reported>) -> f64 {
    let add = |(a, b): (f64, f64), reported: &Reported| (a + reported.computed.0, b + reported.computed.1);
    let (cpu, own) = reported.into_iter().fold((0.0, 0.0), add);
    if own > 0.0 && cpu < COMPUTING * own { f64::max(cpu / own, 0.0) } else { 1.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Ranks 0 and 1 on one core, rank 2 on another.
    fn core_sharing() -> CoreSharing {
        let mut core_sharing = CoreSharing::new(&[SharedCores { processors: vec![0, 1], cores: 1.0 }], 3);
        core_sharing.probed(&[0.5, 0.5, 1.0]);
        core_sharing
    }

    /// Rank `rank` has been ready for `active` of the time until `seconds`, and got `share` of its core.
    fn tell(core_sharing: &mut CoreSharing, rank: usize, active: f64, share: f64, seconds: u64) {
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
    fn what_two_of_ours_take_from_each_other_is_no_load() {
        let mut core_sharing = core_sharing();
        assert_near(&core_sharing.speeds(vec![2.0; 3], |_| true), &[2.0; 3]);
        tell(&mut core_sharing, 0, 1.0, 0.5, 9);
        tell(&mut core_sharing, 1, 1.0, 0.5, 9);
        assert_near(&core_sharing.speeds(vec![2.0; 3], |_| true), &[2.0; 3]);
        // A third one that is none of ours, and one on rank 2's core.
        tell(&mut core_sharing, 0, 1.0, 1.0 / 3.0, 18);
        tell(&mut core_sharing, 1, 1.0, 1.0 / 3.0, 18);
        tell(&mut core_sharing, 2, 1.0, 0.5, 18);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |_| true), &[0.5; 3]);
        // Of the core, one gets half and both get two thirds.
        assert_near(&[core_sharing.groups()[0].cores], &[4.0 / 3.0]);
    }

    #[test]
    fn a_parked_partner_takes_nothing_and_a_load_beside_it_is_seen() {
        let mut core_sharing = core_sharing();
        tell(&mut core_sharing, 0, 1.0, 1.0, 9);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |r| r != 1), &[1.0; 3]);
        tell(&mut core_sharing, 0, 1.0, 0.5, 18);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |r| r != 1), &[0.5, 0.5, 1.0]);
        // Both parked, rank 1 has looked at its core: the load has gone.
        tell(&mut core_sharing, 0, 0.5, 1.0, 20);
        tell(&mut core_sharing, 1, 0.0, 1.0, 20);
        assert_near(&core_sharing.speeds(vec![1.0; 3], |r| r == 2), &[1.0; 3]);
    }

    #[test]
    fn where_ranks_wait_for_something_outside_more_of_them_fit_on_a_core() {
        let mut core_sharing = core_sharing();
        let measurements = Measurements { computed: (0.2, 1.0), ..Measurements::default() };
        core_sharing.measured(0, &measurements, Duration::from_secs(1));
        assert_near(&[core_sharing.groups()[0].cores], &[5.0]);
        // Of 1 s, 0.8 s of waiting stay as they are and 0.2 s take twice as long beside a load.
        tell(&mut core_sharing, 2, 1.0, 0.5, 9);
        core_sharing.measured(0, &measurements, Duration::from_secs(9));
        assert_near(&core_sharing.speeds(vec![1.0; 3], |_| true)[2..], &[1.0 / 1.2]);
        let measurements = Measurements { computed: (0.95, 1.0), ..Measurements::default() };
        core_sharing.measured(0, &measurements, Duration::from_secs(1));
        assert_near(&[core_sharing.groups()[0].cores], &[1.0]);
    }
}

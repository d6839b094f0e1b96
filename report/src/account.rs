//! Account of a rank's time: seconds of computing, messages, waiting and others. All pictures, tables and sentences of a report are based on it.

use armature::observe::activity::Activity;

use crate::run::Run;

/// Names of the kinds of activity among which a rank's time is divided, in the order of [`Shares::named`].
pub(crate) const KINDS: [&str; 7] =
    ["computes", "no core", "set-up", "messages", "not known", "parked", "waits"];

/// Seconds that a rank spent on each kind of activity, in a part of the run.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    /// Seconds of user code on items, tasks, commands and units of a loop (rows or indices),
    /// including seconds without a core.
    pub work: f64,
    /// Seconds, contained in `work`, in which the rank was ready to run and had no core.
    pub lost: f64,
    /// Seconds of the planner, and of user code that processes no item, such as a set-up function.
    pub set_up: f64,
    /// Seconds for sending, receiving and handling messages.
    pub messages: f64,
    /// Seconds in which the rank waited and had nothing to compute.
    pub idle: f64,
    /// Seconds as a parked worker, which has no work until it is woken.
    pub parked: f64,
    /// Seconds that were not measured or are not in the log.
    pub unknown: f64,
}

impl Shares {
    /// Adds the fraction `share` of the seconds of an activity record to the account.
    pub(crate) fn add(&mut self, activity: &Activity, share: f64) {
        self.work += share * activity.work_s;
        self.lost += share * activity.lost_s.min(activity.work_s);
        self.set_up += share * activity.set_up_s;
        self.messages += share * activity.messages_s;
        self.idle += share * activity.idle_s;
        self.parked += share * activity.parked_s;
        self.unknown += share * activity.unknown_s();
    }

    /// Returns the account with all seconds divided by a number.
    pub(crate) fn divided_by(self, n: f64) -> Self {
        Shares {
            work: self.work / n,
            lost: self.lost / n,
            set_up: self.set_up / n,
            messages: self.messages / n,
            idle: self.idle / n,
            parked: self.parked / n,
            unknown: self.unknown / n,
        }
    }

    /// Returns the sum of two accounts.
    pub(crate) fn plus(self, other: Self) -> Self {
        Shares {
            work: self.work + other.work,
            lost: self.lost + other.lost,
            set_up: self.set_up + other.set_up,
            messages: self.messages + other.messages,
            idle: self.idle + other.idle,
            parked: self.parked + other.parked,
            unknown: self.unknown + other.unknown,
        }
    }

    /// Returns the total time of the account.
    pub(crate) fn total(&self) -> f64 {
        self.work + self.set_up + self.messages + self.idle + self.parked + self.unknown
    }

    /// Returns the computing time for which the rank had a core.
    pub(crate) fn useful(&self) -> f64 {
        (self.work - self.lost).max(0.0)
    }

    /// Returns the seconds of each kind of activity, in the order of [`KINDS`]. Their sum is the [total](Shares::total).
    pub(crate) fn named(&self) -> [f64; KINDS.len()] {
        [
            self.useful(),
            self.work.min(self.lost),
            self.set_up,
            self.messages,
            self.unknown,
            self.parked,
            self.idle,
        ]
    }

    /// Returns the name of the kind of activity with the most seconds, or `None` if all are zero.
    pub(crate) fn largest(&self) -> Option<&'static str> {
        let all = KINDS.into_iter().zip(self.named());
        all.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|most| most.1 > 0.0).map(|most| most.0)
    }

    /// Returns the share of each kind of activity in units of 1/`whole` of the total time, rounded so that the sum is `whole`; `None` if the account
    /// is empty.
    pub(crate) fn rounded(&self, whole: u32) -> Option<[u32; KINDS.len()]> {
        let total = self.total();
        if total <= 0.0 {
            return None;
        }
        let exact = self.named().map(|share| f64::from(whole) * share / total);
        let mut rounded = exact.map(|share| share.floor() as u32);
        let mut order: Vec<usize> = (0..KINDS.len()).collect();
        order.sort_by(|&a, &b| exact[b].fract().total_cmp(&exact[a].fract()));
        let left = whole.saturating_sub(rounded.iter().sum()) as usize;
        order.into_iter().take(left).for_each(|kind| rounded[kind] += 1);
        Some(rounded)
    }
}

/// Returns the account of a rank's time between two times of the run. Time that is not in the log counts as unknown. The account is empty if the log
/// has no activity of the rank in this time.
pub(crate) fn shares(run: &Run, rank: usize, (from, to): (f64, f64)) -> Shares {
    let mut sum = Shares::default();
    let Some(rank) = run.ranks.get(rank).filter(|rank| !rank.parts.is_empty()) else { return sum };
    let first = rank.parts.partition_point(|part| part.to <= from);
    for part in &rank.parts[first..] {
        if part.from() >= to {
            break;
        }
        let inside = (part.to.min(to) - part.from().max(from)).max(0.0);
        if part.activity.seconds > 0.0 {
            sum.add(&part.activity, inside / part.activity.seconds);
        }
    }
    if sum.total() > 0.0 {
        sum.unknown += (to - from - sum.total()).max(0.0);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::situation::Situation;

    #[test]
    fn time_shares_sum_to_the_whole_span() {
        let run = Situation::new(10.0).busy(3.0, 1.0, 1.0 / 3.0).run();
        for span in [(0.0, 10.0), (2.5, 7.1), (9.0, 12.0)] {
            let shares = shares(&run, 0, span);
            assert!((shares.total() - (span.1 - span.0)).abs() < 1e-9, "{shares:?}");
            assert!((shares.named().iter().sum::<f64>() - shares.total()).abs() < 1e-9, "{shares:?}");
            assert_eq!(shares.rounded(100).unwrap().iter().sum::<u32>(), 100);
        }
        let thirds = Shares { work: 1.0, idle: 1.0, messages: 1.0, ..Shares::default() };
        assert_eq!(thirds.rounded(100), Some([34, 0, 0, 33, 0, 0, 33]));
        assert_eq!(shares(&run, 1, (0.0, 10.0)).rounded(100), None);
    }
}

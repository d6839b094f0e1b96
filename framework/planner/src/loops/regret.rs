//! Shares that suit the ranks' mean rates, and what they would have saved.

use serde::{Deserialize, Serialize};

use super::distribution::{distribute, pass_time};

/// Follows what the shares of the ranks' mean rates would have saved since the last movement.
///
/// Where a load comes and goes about as fast as a balancer follows, [hindsight](super::LoopOptions::hindsight) keeps units
/// where they are. That may be where they suited the load when it has gone, or a slow moment of a rank that was none of
/// its own. The mean rates need no following: with them nothing is best, and nothing is bad.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Regret {
    /// Units and seconds of each rank.
    done: Vec<(f64, f64)>,
    saved: f64,
}

impl Regret {
    pub(super) fn new(ranks: usize) -> Self {
        Regret { done: vec![(0.0, 0.0); ranks], saved: 0.0 }
    }

    /// A rank has done `units` in `seconds`.
    pub(super) fn measure(&mut self, rank: usize, units: f64, seconds: f64) {
        let done = &mut self.done[rank];
        *done = (done.0 + units, done.1 + seconds);
    }

    /// So many units by the ranks' mean rates; `None` while one of them has none.
    pub(super) fn shares(&self, units: u64, least: u64) -> Option<Vec<u64>> {
        let is_known = self.done.iter().all(|&(units, seconds)| units > 0.0 && seconds > 0.0);
        let rates: Vec<f64> = self.done.iter().map(|(units, seconds)| units / seconds).collect();
        is_known.then(|| distribute(units, &rates, least))
    }

    /// `seconds` have passed, in which ranks with these units had these rates.
    pub(super) fn follow(&mut self, seconds: f64, held: &[u64], rates: &[f64], least: u64) {
        let Some(shares) = self.shares(held.iter().sum(), least) else { return };
        let saved = seconds * (1.0 - pass_time(&shares, rates) / pass_time(held, rates));
        // Nothing can be said of a time in which a rank did nothing at all.
        if saved.is_finite() {
            self.saved += saved;
        }
    }

    /// Units have moved.
    pub(super) fn moved(&mut self) {
        self.saved = 0.0;
    }

    /// Seconds that the shares of the mean rates would have saved since the last movement; less than 0 if they would have
    /// cost some.
    pub(super) fn saved(&self) -> f64 {
        self.saved
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shares_of_the_mean_rates_are_compared_with_those_that_are() {
        let mut regret = Regret::new(2);
        regret.measure(0, 60.0, 1.0);
        assert_eq!(regret.shares(100, 1), None);
        regret.follow(1.0, &[20, 80], &[60.0, 60.0], 1);
        assert_eq!(regret.saved(), 0.0, "nothing is known of a rank");
        // Half of the time a load is beside the second rank.
        regret.measure(0, 60.0, 1.0);
        regret.measure(1, 60.0, 1.0);
        regret.measure(1, 20.0, 1.0);
        assert_eq!(regret.shares(100, 1), Some(vec![60, 40]));
        // Units are where they suit the load: a pass takes 1.25 s, and 2 s with the mean shares; …
        regret.follow(3.0, &[75, 25], &[60.0, 20.0], 1);
        assert!((regret.saved() + 3.0 * 0.6).abs() < 1e-9, "{}", regret.saved());
        // … without it 1.25 s and 1 s.
        regret.follow(10.0, &[75, 25], &[60.0, 60.0], 1);
        assert!((regret.saved() + 3.0 * 0.6 - 10.0 * 0.2).abs() < 1e-9, "{}", regret.saved());
        regret.follow(1.0, &[75, 25], &[60.0, 0.0], 1);
        assert!((regret.saved() - 0.2).abs() < 1e-9, "a rank that does nothing tells nothing");
        regret.moved();
        assert_eq!((regret.saved(), regret.shares(100, 1)), (0.0, Some(vec![60, 40])));
    }
}

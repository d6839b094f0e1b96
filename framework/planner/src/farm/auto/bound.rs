//! How large a chunk may be, whatever the policy says.

use super::super::policy::View;

/// A risk that is run: the model knows no better.
const SMALL_RISK: f64 = 1.2;
/// Part of the time ahead that smaller chunks may cost where they are not known to be needed.
const CHEAP: f64 = 0.003;
/// Chunks for each worker, of what is left, beyond which more would gain nothing.
const FINEST: f64 = 6.0;

/// A bound for chunks: a part of an even share.
///
/// Tasks may turn out longer than those that were measured. A chunk that is an even share by ρ is then still done with
/// the others if its tasks take up to ρ times as long as theirs. That costs messages; where they are cheap, chunks are
/// small in any case, and where they are dear, no smaller than the master can serve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bound {
    /// ρ.
    parts: f64,
    /// Tasks below which no chunk is bounded.
    least: u64,
}

impl Default for Bound {
    /// None.
    fn default() -> Self {
        Bound { parts: 1.0, least: u64::MAX }
    }
}

impl Bound {
    /// For tasks of `mean` seconds, some of which may take `risk` times as long.
    pub(super) fn new(view: &View<'_>, mean: f64, risk: f64) -> Self {
        let (n, share) = (view.n() as f64, view.left as f64 / view.n() as f64);
        // A worker waits for half of the others' messages, and for its own.
        let knowledge = view.knowledge;
        let exchange =
            knowledge.send_time(1) * (0.5 * n).max(1.0) + knowledge.latency + knowledge.return_time(1);
        let cheap = (CHEAP * share * mean / (exchange * share.max(2.0).ln())).min(FINEST);
        if cheap > risk {
            Bound { parts: cheap, least: 1 }
        } else if risk > SMALL_RISK {
            // With the least chunk that the master can serve, workers just begin to wait for it.
            Bound { parts: risk, least: view.least_chunk().map_or(u64::MAX, |least| least.saturating_mul(2)) }
        } else {
            Bound::default()
        }
    }

    /// Tasks of a chunk at most, of `left` tasks for `workers` workers.
    pub(super) fn most(&self, left: u64, workers: u64) -> u64 {
        let part = (left as f64 / (workers as f64 * self.parts)).ceil() as u64;
        part.max(self.least).clamp(1, left.max(1))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::view;
    use super::*;
    use crate::farm::{ChunkDone, Knowledge, MessageCosts, TaskStatistics};

    fn bound(start_up: f64, mean: f64, risk: f64) -> Bound {
        let knowledge = Knowledge { messages: MessageCosts::new(start_up, 0.0), ..Knowledge::default() };
        let mut statistics = TaskStatistics::default();
        statistics.add(&ChunkDone::timed(0, 10, 10.0 * mean));
        Bound::new(&view(4000, Some(mean), &statistics, &knowledge), mean, risk)
    }

    #[test]
    fn chunks_are_small_where_that_costs_nothing() {
        assert_eq!(bound(1e-6, 1e-2, 1.0).most(4000, 4), 167);
        assert_eq!(bound(1e-6, 1e-2, 1.0).most(3, 4), 1);
    }

    #[test]
    fn a_risk_is_paid_for_unless_the_master_cannot_keep_up() {
        // A chunk in 1 s, a message in 1 ms: no bound without a risk.
        assert_eq!(bound(1e-3, 1e-3, 1.1).most(4000, 4), 4000);
        assert_eq!(bound(1e-3, 1e-3, 2.0).most(4000, 4), 500);
        // 1000 tasks, that is 1 ms, while the master sends four messages of 1 s.
        assert_eq!(bound(1.0, 1e-6, 2.0).most(4000, 4), 4000);
    }
}

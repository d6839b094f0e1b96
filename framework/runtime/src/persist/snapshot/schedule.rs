//! Schedule of checkpoints: a fixed period, or the period with the least loss of time by checkpoints and failures.

use std::time::Duration;

use crate::session::Config;

/// Time from the start of a run to its first checkpoint, if the period depends on the cost of a checkpoint, which only the first one shows. A shorter
/// time would add an unknown cost to runs of some seconds; a longer time delays the knowledge of the cost.
const FIRST: Duration = Duration::from_secs(10);
/// Weight of the newest checkpoint in the mean cost of checkpoints. Costs vary with the load of the file system, so no single cost decides.
const NEWEST: f64 = 0.25;

/// Schedule of checkpoints.
///
/// Without a fixed period, the period P follows from the mean cost C of the last checkpoints, the mean time µ between failures, and the
/// maximum overhead f: P = max(√(2 µ C), C / f). The root is the first-order optimum of Young ("A first order approximation to the optimum
/// checkpoint interval", 1974, equation 11) and Daly (2006, equation 8).
#[derive(Clone, Debug)]
pub(crate) struct Schedule {
    fixed: Option<Duration>,
    mean_time_between_failures: Duration,
    /// Maximum fraction of the run time that checkpoints may take; greater than 0.
    overhead: f64,
    /// Decayed mean of the costs of the last checkpoints in seconds; `None` before the first checkpoint.
    cost: Option<f64>,
    last: Duration,
}

impl Schedule {
    pub(crate) fn new(fixed: Option<Duration>, config: &Config, now: Duration) -> Self {
        Schedule {
            fixed,
            mean_time_between_failures: config.mean_time_between_failures,
            overhead: config.checkpoint_overhead,
            cost: None,
            last: now,
        }
    }

    pub(crate) fn period(&self) -> Duration {
        match (self.fixed, self.cost) {
            (Some(fixed), _) => fixed,
            (None, None) => FIRST,
            (None, Some(cost)) => {
                let optimum = (2.0 * self.mean_time_between_failures.as_secs_f64() * cost).sqrt();
                Duration::try_from_secs_f64(optimum.max(cost / self.overhead)).unwrap_or(Duration::MAX)
            }
        }
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        now.saturating_sub(self.last) >= self.period()
    }

    pub(crate) fn started(&mut self, now: Duration) {
        self.last = now;
    }

    pub(crate) fn completed(&mut self, cost: Duration) {
        let cost = cost.as_secs_f64();
        self.cost = Some(self.cost.map_or(cost, |mean| mean + NEWEST * (cost - mean)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn schedule(fixed: Option<Duration>, mtbf: u64, overhead: f64) -> Schedule {
        let config = Config {
            mean_time_between_failures: Duration::from_secs(mtbf),
            checkpoint_overhead: overhead,
            ..Config::new()
        };
        Schedule::new(fixed, &config, 5 * SECOND)
    }

    #[test]
    fn fixed_period_ignores_costs() {
        let mut schedule = schedule(Some(3 * SECOND), 1, 0.01);
        schedule.completed(100 * SECOND);
        assert!(!schedule.is_due(7 * SECOND) && schedule.is_due(8 * SECOND));
        schedule.started(8 * SECOND);
        assert!(!schedule.is_due(10 * SECOND) && schedule.is_due(11 * SECOND));
    }

    #[test]
    fn period_is_the_optimum_of_young_and_daly_unless_the_overhead_bounds_it() {
        // With a mean time between failures of 20,000 s and a cost of 1 s, the optimal period is √(2 · 20,000 s · 1 s) = 200 s. It exceeds the
        // minimum period of 1 s / 1 % = 100 s that keeps the overhead at 1 %.
        let mut rare = schedule(None, 20_000, 0.01);
        assert_eq!(rare.period(), FIRST);
        rare.completed(SECOND);
        assert_eq!(rare.period(), 200 * SECOND);
        // With a mean time between failures of 50 s and a cost of 1 s, the optimal period is √(2 · 50 s · 1 s) = 10 s. It is below the minimum period
        // of 1 s / 1 % = 100 s that keeps the overhead at 1 %.
        let mut frequent = schedule(None, 50, 0.01);
        frequent.completed(SECOND);
        assert_eq!(frequent.period(), 100 * SECOND);
        frequent.completed(5 * SECOND);
        assert_eq!(frequent.period(), 200 * SECOND, "a quarter of the newest cost counts");
    }

    #[test]
    fn extreme_values_give_a_period() {
        let mut free = schedule(None, 86_400, 0.01);
        free.completed(Duration::ZERO);
        assert_eq!(free.period(), Duration::ZERO);
        let mut dear = schedule(None, u64::MAX, 1e-9);
        dear.completed(Duration::MAX);
        assert_eq!(dear.period(), Duration::MAX);
        assert!(!dear.is_due(Duration::from_secs(1 << 40)));
    }
}

//! Seconds an item from finished batches, by the estimator that suits them.

use serde::{Deserialize, Serialize};

use super::estimator::{RateEstimate, RateEstimator, Sample};
use super::options::RateOptions;
use crate::error::{Error, ErrorKind, Result};
use crate::estimate::{Estimate, ServiceOptions, ServiceTime, Source};
use crate::range;

/// How a [`ServiceMonitor`] chooses.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MonitorOptions {
    /// Fewest items in a period for the heuristic. With n items of random length in a period its quantile is about
    /// 0.9 / √n above the mean: 3 % at 1000.
    pub items: f64,
    /// Busy seconds of a period: no shorter and no longer than this.
    pub periods: (f64, f64),
    /// The heuristic is believed within this part of the robust mean. It looks back much longer, so after a change
    /// it is late.
    pub agreement: f64,
    /// The heuristic itself.
    pub rate: RateOptions,
    /// The robust mean.
    pub service: ServiceOptions,
}

impl Default for MonitorOptions {
    fn default() -> Self {
        MonitorOptions {
            items: 1000.0,
            periods: (0.001, 0.020),
            agreement: 0.20,
            // Busy time is not disturbed by blocking, and a period takes milliseconds: less has to be looked through
            // than with periods of microseconds.
            rate: RateOptions { tolerance: 1e-5, ..RateOptions::default() },
            service: ServiceOptions::default(),
        }
    }
}

impl MonitorOptions {
    /// The robust mean alone.
    pub fn mean_only() -> Self {
        MonitorOptions { items: f64::INFINITY, ..MonitorOptions::default() }
    }
}

/// Watches one stage on one rank.
///
/// A finished batch is so many items in so many seconds of work, waiting excluded; put together, batches make periods
/// of time that was not blocked. Where at least [`items`](MonitorOptions::items) items fall into one of at most
/// [the longest](MonitorOptions::periods), the rate of the heuristic is used once it has converged, and as long as it
/// agrees with the robust mean of the last batches. In all other cases that mean itself is the estimate. Which one it
/// is, is said with it.
///
/// ```
/// use armature_planner::estimate::Source;
/// use armature_planner::estimate::ServiceMonitor;
///
/// let mut small = ServiceMonitor::default();
/// (0..200_000).for_each(|_| small.add(64, 64.0 * 2e-6));
/// let estimate = small.estimate().unwrap();
/// assert!((estimate.value / 2e-6 - 1.0).abs() < 0.01 && estimate.settled);
/// assert_eq!(estimate.source, Source::Heuristic);
///
/// let mut large = ServiceMonitor::default();
/// (0..50).for_each(|_| large.add(1, 0.3));
/// assert_eq!(large.estimate().unwrap().source, Source::RobustMean);
/// ```
#[derive(Clone, Debug)]
pub struct ServiceMonitor {
    options: MonitorOptions,
    service: ServiceTime,
    heuristic: Option<RateEstimator>,
    /// Items and busy seconds since the last period.
    items: f64,
    busy: f64,
    /// Periods until it is looked again whether their length suits.
    until_look: u32,
}

/// Periods after which it is looked whether their length still suits.
const LOOK: u32 = 64;

impl Default for ServiceMonitor {
    fn default() -> Self {
        ServiceMonitor::unchecked(MonitorOptions::default())
    }
}

impl ServiceMonitor {
    /// A monitor that has seen nothing.
    ///
    /// # Errors
    /// As [`RateOptions::validate`] and [`ServiceOptions::validate`]; [`ErrorKind::Options`] too if the periods are not two positive lengths in order,
    /// or another number is not positive.
    pub fn new(options: MonitorOptions) -> Result<Self> {
        options.rate.validate()?;
        options.service.validate()?;
        let (shortest, longest) = options.periods;
        let ordered = range::is_positive(shortest) && shortest <= longest && range::is_positive(longest);
        let is_usable = ordered && options.items > 0.0 && options.agreement > 0.0;
        if !is_usable {
            let message = format!("a service monitor cannot work with {options:?}");
            return Err(Error::new(ErrorKind::Options, message));
        }
        Ok(ServiceMonitor::unchecked(options))
    }

    fn unchecked(options: MonitorOptions) -> Self {
        ServiceMonitor {
            options,
            service: ServiceTime::unchecked(options.service),
            heuristic: None,
            items: 0.0,
            busy: 0.0,
            until_look: 0,
        }
    }

    /// A batch of `items` was finished after `busy` seconds of work. What says nothing is ignored, as by
    /// [`ServiceTime::add`].
    pub fn add(&mut self, items: u64, busy: f64) {
        let Some(busy) = range::amount(busy).filter(|_| items > 0) else { return };
        self.service.add(items, busy);
        self.items += items as f64;
        self.busy += busy;
        let period = self.heuristic.as_ref().map_or(self.options.periods.0, RateEstimator::period);
        if self.busy < period {
            return;
        }
        if self.until_look == 0 {
            self.until_look = LOOK;
            self.choose();
        }
        self.until_look -= 1;
        if let Some(heuristic) = &mut self.heuristic {
            // Periods end with a batch, so they are a little longer than asked for: the items are those of the length.
            let period = heuristic.period();
            heuristic.add(Sample { items: self.items * period / self.busy, period, blocked: false });
        }
        (self.items, self.busy) = (0.0, 0.0);
    }

    /// Seconds for an item, with the estimator that it comes from; none before the first batch.
    pub fn estimate(&self) -> Option<Estimate> {
        let mean = self.service.estimate()?;
        let agrees = |rate: &RateEstimate| {
            rate.converged
                && rate.rate > 0.0
                && (rate.rate * mean.value - 1.0).abs() <= self.options.agreement
        };
        let heuristic = self.heuristic.as_ref().and_then(RateEstimator::estimate).filter(agrees);
        Some(heuristic.map_or(mean, |rate| Estimate {
            value: 1.0 / rate.rate,
            source: Source::Heuristic,
            settled: true,
            count: mean.count,
        }))
    }

    /// Forgets everything, as when the stage has become another.
    pub fn clear(&mut self) {
        *self = ServiceMonitor::unchecked(self.options);
    }

    /// Takes up, drops or renews the heuristic, by how many items there are in a period.
    fn choose(&mut self) {
        let Some(mean) = self.service.estimate() else { return };
        let (shortest, longest) = self.options.periods;
        let wanted = self.options.items * mean.value;
        if wanted > longest {
            self.heuristic = None;
            return;
        }
        // A period that holds up to twice what is needed, or four fifths of it, need not begin anew.
        let suits = |period: f64| (0.8 * wanted..=2.0 * wanted.max(shortest)).contains(&period);
        if self.heuristic.as_ref().is_some_and(|heuristic| suits(heuristic.period())) {
            return;
        }
        let period = (1.25 * wanted).clamp(shortest, longest);
        // The options were checked, and the period lies between two positive lengths.
        self.heuristic = RateEstimator::new(period, self.options.rate).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_distr::{Distribution, Exp, Gamma};

    fn fed(
        monitor: &mut ServiceMonitor,
        batches: u32,
        items: u64,
        mut per_item: impl FnMut() -> f64,
    ) -> Estimate {
        (0..batches).for_each(|_| monitor.add(items, items as f64 * per_item()));
        monitor.estimate().unwrap()
    }

    #[test]
    fn nothing_is_said_of_nothing() {
        let mut monitor = ServiceMonitor::default();
        monitor.add(0, 1.0);
        monitor.add(1, f64::NAN);
        assert_eq!(monitor.estimate(), None);
    }

    #[test]
    fn small_items_are_left_to_the_heuristic_once_it_has_converged() {
        let mut rng = StdRng::seed_from_u64(2);
        // The time of 50 exponential items.
        let batch = Gamma::new(50.0, 4e-6 / 50.0).unwrap();
        let mut monitor = ServiceMonitor::default();
        let early = fed(&mut monitor, 2000, 50, || batch.sample(&mut rng));
        assert_eq!((early.source, early.settled), (Source::RobustMean, true));
        let late = fed(&mut monitor, 100_000, 50, || batch.sample(&mut rng));
        assert_eq!((late.source, late.settled), (Source::Heuristic, true));
        assert!((late.value / 4e-6 - 1.0).abs() < 0.06, "{late}");
    }

    #[test]
    fn large_items_are_left_to_the_mean() {
        let mut rng = StdRng::seed_from_u64(3);
        let item = Exp::new(1.0 / 2e-3).unwrap();
        let estimate = fed(&mut ServiceMonitor::default(), 2000, 8, || item.sample(&mut rng));
        assert_eq!((estimate.source, estimate.settled), (Source::RobustMean, true));
        let estimate =
            fed(&mut ServiceMonitor::new(MonitorOptions::mean_only()).unwrap(), 200_000, 64, || 2e-6);
        assert_eq!(estimate.source, Source::RobustMean);
    }

    #[test]
    fn a_change_is_told_by_the_mean_until_the_heuristic_has_followed() {
        let mut monitor = ServiceMonitor::default();
        assert_eq!(fed(&mut monitor, 200_000, 64, || 2e-6).source, Source::Heuristic);
        // A tenth of a second at twice the time.
        let soon = fed(&mut monitor, 800, 64, || 4e-6);
        assert_eq!(soon.source, Source::RobustMean);
        assert!(soon.value > 2.9e-6, "{soon}");
        let late = fed(&mut monitor, 200_000, 64, || 4e-6);
        assert_eq!(late.source, Source::Heuristic);
        assert!((late.value / 4e-6 - 1.0).abs() < 0.01, "{late}");
        // Items that have become large.
        let large = fed(&mut monitor, 2000, 1, || 1e-3);
        assert_eq!(large.source, Source::RobustMean);
        assert!((large.value / 1e-3 - 1.0).abs() < 0.01, "{large}");
        monitor.clear();
        assert_eq!(monitor.estimate(), None);
    }

    #[test]
    fn options_that_cannot_be_used_are_refused() {
        let refused = |options| ServiceMonitor::new(options).is_err();
        assert!(refused(MonitorOptions { periods: (0.02, 0.01), ..MonitorOptions::default() }));
        assert!(refused(MonitorOptions { items: 0.0, ..MonitorOptions::default() }));
        let rate = RateOptions { window: 1, ..RateOptions::default() };
        assert!(refused(MonitorOptions { rate, ..MonitorOptions::default() }));
    }
}

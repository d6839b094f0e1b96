//! Seconds per item of a stage on a rank, measured by finished batches.

use super::value::{Estimate, Source};
use crate::range;

/// Minimum busy seconds of a sample; shorter batches are combined into one sample. The value is several turns of the
/// scheduler and thousands of clock ticks. With a much smaller value, a batch during which the rank was briefly
/// descheduled would be a separate sample, and be clipped.
const SAMPLE: f64 = 0.005;
/// Number of samples after which an old sample counts half in the mean time per item. With twice the number, the
/// estimate follows a change half as fast.
const HALF_LIFE: usize = 16;
/// Number of stored samples of the time per item. Older samples would have less than a sixteenth of the weight of a
/// new one.
const WINDOW: usize = 2 * 2 * HALF_LIFE;
/// Maximum of a sample of the time per item, as a multiple of the median of the samples; larger samples are clipped.
/// If the times are exponentially distributed, one in thirty is clipped, and the mean becomes 3 % too low. A single much
/// larger sample (spike) raises the mean of all stored samples by a fifth.
const CLIP: f64 = 5.0;
/// Minimum number of samples for a reliable estimate: the mean of five exponentially distributed times has an error
/// of 45 %.
const SETTLED: usize = 5;

/// Robust estimate of the busy seconds per item of one stage on one rank.
///
/// The *mean* time per item limits the throughput of a pipeline. The median is not suitable: for exponentially distributed times it is 31 % too low.
/// A plain mean is distorted by a single spike. The estimate is a winsorised mean of the last samples: values above five times the median are
/// clipped, newer samples count more, and each sample counts by its number of items. A sample is a batch, or as many short batches as take a few
/// milliseconds together.
///
/// Adding a batch takes a few operations and never allocates. Reading the estimate sorts up to 64 numbers.
///
/// ```
/// use armature_planner::estimate::{ServiceTime, Source};
///
/// let mut service = ServiceTime::default();
/// for _ in 0..50 {
///     service.add(4, 4.0 * 0.010);
/// }
/// service.add(4, 4.0 * 3.0); // the rank was stopped for a while
/// let estimate = service.estimate().unwrap();
/// assert!((estimate.value - 0.010).abs() < 0.002, "{estimate}");
/// assert_eq!((estimate.source, estimate.settled), (Source::RobustMean, true));
/// ```
#[derive(Clone, Debug)]
pub struct ServiceTime {
    /// Ring buffer of the last samples; if it is full, the oldest is at `next`.
    samples: [Sample; WINDOW],
    len: usize,
    next: usize,
    /// Items and busy seconds of batches that do not yet form a complete sample.
    open: Sample,
    batches: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sample {
    items: f64,
    busy: f64,
}

impl Default for ServiceTime {
    fn default() -> Self {
        ServiceTime {
            samples: [Sample::default(); WINDOW],
            len: 0,
            next: 0,
            open: Sample::default(),
            batches: 0,
        }
    }
}

impl ServiceTime {
    /// Records a batch of `items` that took `busy` seconds of work. Batches without items are ignored, and so are times that are negative, above
    /// 1e60 or NaN.
    pub fn add(&mut self, items: u64, busy: f64) {
        let Some(busy) = range::amount(busy).filter(|_| items > 0) else { return };
        self.batches += 1;
        self.open.items += items as f64;
        self.open.busy += busy;
        if self.open.busy >= SAMPLE {
            self.samples[self.next] = std::mem::take(&mut self.open);
            self.next = (self.next + 1) % WINDOW;
            self.len = (self.len + 1).min(WINDOW);
        }
    }

    /// Returns the seconds per item; `None` before the first batch, or if all batches together took no time.
    pub fn estimate(&self) -> Option<Estimate> {
        let settled = self.len >= SETTLED;
        let estimate = |value| Estimate { value, source: Source::RobustMean, settled, count: self.batches };
        if self.len == 0 {
            let Sample { items, busy } = self.open;
            return (items > 0.0 && busy > 0.0).then(|| estimate(busy / items));
        }
        // Pairs of seconds per item and weight, one for each sample. Their order does not matter.
        let mut weighted = [(0.0, 0.0); WINDOW];
        for (age, entry) in weighted[..self.len].iter_mut().enumerate() {
            let Sample { items, busy } = self.samples[(self.next + WINDOW - 1 - age) % WINDOW];
            *entry = (busy / items, items * (-(age as f64) / HALF_LIFE as f64).exp2());
        }
        let weighted = &mut weighted[..self.len];
        let limit = CLIP * weighted_median(weighted);
        let (sum, weight) = weighted.iter().fold((0.0, 0.0), |(sum, total), &(time, weight)| {
            (sum + weight * time.min(limit), total + weight)
        });
        let mean = sum / weight;
        mean.is_finite().then(|| estimate(mean)).filter(|estimate| estimate.value > 0.0)
    }
}

/// Smallest value that at least half of the weight does not exceed. Sorts its argument, which must not be empty.
fn weighted_median(weighted: &mut [(f64, f64)]) -> f64 {
    weighted.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let half = 0.5 * weighted.iter().map(|(_, weight)| weight).sum::<f64>();
    let mut below = 0.0;
    for &(value, weight) in &*weighted {
        below += weight;
        if below >= half {
            return value;
        }
    }
    weighted[weighted.len() - 1].0
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;
    use rand::rngs::StdRng;
    use rand_distr::{Distribution, Exp};

    fn value(service: &ServiceTime) -> f64 {
        service.estimate().unwrap().value
    }

    #[test]
    fn estimate_starts_with_the_first_valid_batch() {
        let mut service = ServiceTime::default();
        assert_eq!(service.estimate(), None);
        service.add(0, 1.0);
        service.add(1, f64::NAN);
        service.add(1, -1.0);
        assert_eq!(service.estimate(), None);
        service.add(10, 0.001);
        let estimate = service.estimate().unwrap();
        assert_eq!((estimate.value, estimate.settled, estimate.count), (0.0001, false, 1));
    }

    #[test]
    fn estimate_of_skewed_times_is_the_mean() {
        let mut rng = StdRng::seed_from_u64(3);
        let times = Exp::new(1.0 / 0.020).unwrap();
        let mut sum = 0.0;
        for _ in 0..200 {
            let mut service = ServiceTime::default();
            (0..100).for_each(|_| service.add(1, times.sample(&mut rng)));
            assert!((value(&service) / 0.020 - 1.0).abs() < 0.65, "{}", value(&service));
            sum += value(&service);
        }
        let mean = sum / 200.0;
        assert!((mean / 0.020 - 1.0).abs() < 0.06, "{mean}");
    }

    #[test]
    fn estimate_follows_a_change_within_64_samples() {
        let mut service = ServiceTime::default();
        (0..100).for_each(|_| service.add(1, 0.010));
        (0..16).for_each(|_| service.add(1, 0.020));
        assert!(value(&service) > 0.0145, "{}", value(&service));
        (0..48).for_each(|_| service.add(1, 0.020));
        assert!((value(&service) - 0.020).abs() < 1e-9, "{}", value(&service));
    }

    #[test]
    fn estimate_follows_a_change_beyond_the_clip() {
        let mut service = ServiceTime::default();
        (0..100).for_each(|_| service.add(1, 0.010));
        (0..64).for_each(|_| service.add(1, 0.500));
        assert!((value(&service) - 0.5).abs() < 1e-9, "{}", value(&service));
    }

    #[test]
    fn short_batches_are_aggregated() {
        let mut service = ServiceTime::default();
        // A delay of a millisecond for every hundredth batch raises the mean time by about 10 µs and counts as work,
        // not as an outlier.
        for i in 0..100_000 {
            service.add(1, if i % 100 == 0 { 1e-3 } else { 10e-6 });
        }
        assert!((value(&service) / 19.9e-6 - 1.0).abs() < 0.10, "{}", value(&service));
        assert_eq!(service.estimate().unwrap().count, 100_000);
    }

    #[test]
    fn batches_are_weighted_by_items() {
        let mut service = ServiceTime::default();
        for _ in 0..200 {
            service.add(30, 0.030);
            service.add(10, 0.020);
        }
        assert!((value(&service) - 0.050 / 40.0).abs() < 0.05 * 0.00125, "{}", value(&service));
    }
}

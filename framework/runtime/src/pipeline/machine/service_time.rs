//! Service time of a rank per item; the number of batches that the rank requests and gets depends on it.

use std::time::Duration;

const FRESH: f64 = 1.0 / 8.0;
/// Service time of a batch above which a rank requests only one batch in advance: the next batch arrives while the rank processes this one, even over
/// a slow link.
const LONG: Duration = Duration::from_millis(10);

/// Service time per item of a group of stages on this rank: computing time between the starts of consecutive batches, divided by the number of items.
/// The service time includes the rank's work for other groups of stages, but no waiting. Callers measure the durations of calls of user code, because
/// the rank's state machine has no clock.
#[derive(Debug, Default)]
pub(super) struct ServiceTime {
    /// Total computing time of the rank at the start of the last batch, and the number of items in that batch.
    last: Option<(Duration, u32)>,
    mean: f64,
    /// Mean squared deviation of the times per item from their mean.
    variance: f64,
    intervals: u32,
    batches: u64,
    first_done: bool,
}

impl ServiceTime {
    /// Records the start of a batch of `items` items; `busy` is the total computing time of the rank by then.
    pub(super) fn begins(&mut self, items: u32, busy: Duration) {
        self.batches += 1;
        if let Some((then, items)) = self.last.replace((busy, items)) {
            let count = f64::from(items.max(1));
            let spent = busy.saturating_sub(then).as_secs_f64() / count;
            // If the rank starts its second batch before the first one is finished, no computing time has passed in between, and nothing is recorded.
            if spent > 0.0 || self.intervals > 0 {
                self.intervals = self.intervals.saturating_add(1);
                let fresh = f64::max(FRESH, f64::from(self.intervals).recip());
                let off = spent - self.mean;
                self.mean += fresh * off;
                if self.intervals > 1 {
                    // The deviation of the batch's mean time per item is squared and multiplied by the number of items: the variance of a mean of
                    // `count` items is smaller by the factor `count` than the variance of the time of one item.
                    self.variance += fresh * ((1.0 - fresh) * off * off * count - self.variance);
                }
            }
        }
    }

    /// Records the end of a call of user code; `busy` is the total computing time of the rank by then. Returns true if the call ends the first batch:
    /// until then the speed of the rank is unknown, and the rank requests no further batch.
    pub(super) fn job_ended(&mut self, busy: Duration) -> bool {
        let Some((then, items)) = self.last.filter(|_| self.is_at_first()) else { return false };
        self.mean = busy.saturating_sub(then).as_secs_f64() / f64::from(items.max(1));
        self.first_done = true;
        true
    }

    pub(super) fn is_at_first(&self) -> bool {
        self.batches == 1 && !self.first_done
    }

    /// Returns true if batches take so little time that a rank must request more than one in advance; false as long as their time is unknown.
    pub(super) fn is_short(&self) -> bool {
        let items = self.last.map_or(1, |(_, items)| items.max(1));
        (self.first_done || self.batches > 1) && self.mean * f64::from(items) < LONG.as_secs_f64()
    }

    /// Returns the mean time of an item in nanoseconds; 0 if it is unknown.
    pub(super) fn nanos(&self) -> u64 {
        nanos(self.mean)
    }

    /// Returns the standard deviation of the time of an item in nanoseconds; 0 if it is unknown.
    pub(super) fn deviation(&self) -> u64 {
        nanos(self.variance.sqrt())
    }
}

fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_counts_but_waiting_does_not() {
        let mut service_time = ServiceTime::default();
        let ms = Duration::from_millis;
        service_time.begins(2, ms(0));
        assert!(service_time.nanos() == 0 && !service_time.is_short());
        // Between the starts of two batches, the rank spent 4 ms on the two items of the first batch and 6 ms on another group of stages.
        service_time.begins(1, ms(10));
        assert_eq!(service_time.nanos(), 5_000_000);
        service_time.begins(1, ms(11));
        assert_eq!(service_time.nanos(), 3_000_000);
        for n in 0..100 {
            service_time.begins(1, ms(11 + 7 * (n + 1)));
        }
        assert!(service_time.nanos().abs_diff(7_000_000) < 10 && service_time.is_short(), "{service_time:?}");
        service_time.begins(1, ms(2000));
        assert!(!service_time.is_short(), "{service_time:?}");
    }

    #[test]
    fn first_batch_gives_an_estimate_when_it_completes() {
        let mut service_time = ServiceTime::default();
        assert!(!service_time.is_at_first() && !service_time.job_ended(Duration::ZERO));
        service_time.begins(1, Duration::ZERO);
        assert!(service_time.is_at_first() && service_time.job_ended(Duration::from_millis(3)));
        assert!(
            !service_time.is_at_first()
                && service_time.is_short()
                && !service_time.job_ended(Duration::from_millis(4))
        );
        assert_eq!(service_time.nanos(), 3_000_000);
    }

    #[test]
    fn deviation_distinguishes_uneven_from_equal_items() {
        let (mut even, mut uneven, mut batches) =
            (ServiceTime::default(), ServiceTime::default(), ServiceTime::default());
        for n in 0..200 {
            even.begins(1, Duration::from_millis(4 * n));
            uneven.begins(1, Duration::from_millis(4 * n - 2 * (n % 2)));
            batches.begins(4, Duration::from_millis(16 * n - 4 * (n % 2)));
        }
        assert_eq!(even.deviation(), 0);
        // One rank gets single items, which take 2 ms and 6 ms in turn. Another gets batches of four items, which take 12 ms and 20 ms in turn. The
        // newest time has the largest weight in the mean.
        for service_time in [uneven, batches] {
            assert!(service_time.deviation().abs_diff(2_000_000) < 100_000, "{service_time:?}");
        }
    }

    #[test]
    fn simultaneous_batches_have_nonzero_service_time() {
        let mut service_time = ServiceTime::default();
        service_time.begins(1, Duration::ZERO);
        service_time.begins(1, Duration::ZERO);
        service_time.begins(1, Duration::from_millis(4));
        assert_eq!(service_time.nanos(), 4_000_000);
    }
}

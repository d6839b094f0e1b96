//! How long an item keeps a replica busy, for whoever decides what it gets.

use std::time::Duration;

/// Weight of the newest interval once there have been a few.
const FRESH: f64 = 1.0 / 8.0;
/// Batches that keep a rank busy for longer give the next one time to come, even over a slow link.
const LONG: Duration = Duration::from_millis(10);

/// What a rank spends between beginning one batch of a block and the next one, per item: with what its other blocks
/// take of its time, but without waiting. The machine has no clock; its compute side measures what each job took.
#[derive(Debug, Default)]
pub(super) struct ServiceTime {
    /// What the rank had spent when it began the last batch, and the items of that.
    last: Option<(Duration, u32)>,
    mean: f64,
    /// Mean square of what intervals differ from the mean, for one item.
    variance: f64,
    intervals: u32,
    /// Batches begun.
    batches: u64,
    first_done: bool,
}

impl ServiceTime {
    /// Another batch of `items` is begun, after the rank has spent `busy` on everything so far.
    pub(super) fn begins(&mut self, items: u32, busy: Duration) {
        self.batches += 1;
        if let Some((then, items)) = self.last.replace((busy, items)) {
            let count = f64::from(items.max(1));
            let spent = busy.saturating_sub(then).as_secs_f64() / count;
            // The compute side may have been given two batches before the first was done.
            if spent > 0.0 || self.intervals > 0 {
                self.intervals = self.intervals.saturating_add(1);
                let fresh = f64::max(FRESH, f64::from(self.intervals).recip());
                let off = spent - self.mean;
                self.mean += fresh * off;
                if self.intervals > 1 {
                    // A mean of several items differs less than one item does.
                    self.variance += fresh * ((1.0 - fresh) * off * off * count - self.variance);
                }
            }
        }
    }

    /// Something is done, after the rank has spent `busy` on everything so far. Returns whether this was what had to be
    /// waited for: the end of the first batch, before which nobody knows how slow this rank is.
    pub(super) fn source_sink(&mut self, busy: Duration) -> bool {
        let Some((then, items)) = self.last.filter(|_| self.is_at_first()) else { return false };
        self.mean = busy.saturating_sub(then).as_secs_f64() / f64::from(items.max(1));
        self.first_done = true;
        true
    }

    /// Whether the first batch has been begun and is not done.
    pub(super) fn is_at_first(&self) -> bool {
        self.batches == 1 && !self.first_done
    }

    /// Whether batches are known to be so short that a rank needs more than one in reserve.
    pub(super) fn is_brisk(&self) -> bool {
        let items = self.last.map_or(1, |(_, items)| items.max(1));
        (self.first_done || self.batches > 1) && self.mean * f64::from(items) < LONG.as_secs_f64()
    }

    /// Nanoseconds for an item, 0 while that is not known.
    pub(super) fn nanos(&self) -> u64 {
        nanos(self.mean)
    }

    /// How far one item differs from another: its standard deviation in nanoseconds, 0 while that is not known.
    pub(super) fn deviation(&self) -> u64 {
        nanos(self.variance.sqrt())
    }
}

/// Whole nanoseconds of a time in seconds.
fn nanos(seconds: f64) -> u64 {
    (seconds * 1e9) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_counts_and_waiting_does_not() {
        let mut service_time = ServiceTime::default();
        let ms = Duration::from_millis;
        service_time.begins(2, ms(0));
        assert!(service_time.nanos() == 0 && !service_time.is_brisk());
        // 4 ms on its two items, 6 ms on another block.
        service_time.begins(1, ms(10));
        assert_eq!(service_time.nanos(), 5_000_000);
        service_time.begins(1, ms(11));
        assert_eq!(service_time.nanos(), 3_000_000);
        for n in 0..100 {
            service_time.begins(1, ms(11 + 7 * (n + 1)));
        }
        assert!(service_time.nanos().abs_diff(7_000_000) < 10 && service_time.is_brisk(), "{service_time:?}");
        service_time.begins(1, ms(2000));
        assert!(!service_time.is_brisk(), "{service_time:?}");
    }

    #[test]
    fn the_first_batch_tells_as_soon_as_it_is_done() {
        let mut service_time = ServiceTime::default();
        assert!(!service_time.is_at_first() && !service_time.source_sink(Duration::ZERO));
        service_time.begins(1, Duration::ZERO);
        assert!(service_time.is_at_first() && service_time.source_sink(Duration::from_millis(3)));
        assert!(
            !service_time.is_at_first()
                && service_time.is_brisk()
                && !service_time.source_sink(Duration::from_millis(4))
        );
        assert_eq!(service_time.nanos(), 3_000_000);
    }

    #[test]
    fn items_that_differ_are_told_from_items_that_do_not() {
        let (mut even, mut uneven, mut batches) =
            (ServiceTime::default(), ServiceTime::default(), ServiceTime::default());
        for n in 0..200 {
            even.begins(1, Duration::from_millis(4 * n));
            uneven.begins(1, Duration::from_millis(4 * n - 2 * (n % 2)));
            batches.begins(4, Duration::from_millis(16 * n - 4 * (n % 2)));
        }
        assert_eq!(even.deviation(), 0);
        // 2 ms and 6 ms in turn; the newest counts most. Four items together take 12 ms and 20 ms.
        for service_time in [uneven, batches] {
            assert!(service_time.deviation().abs_diff(2_000_000) < 100_000, "{service_time:?}");
        }
    }

    #[test]
    fn batches_handed_over_together_do_not_look_free() {
        let mut service_time = ServiceTime::default();
        service_time.begins(1, Duration::ZERO);
        service_time.begins(1, Duration::ZERO);
        service_time.begins(1, Duration::from_millis(4));
        assert_eq!(service_time.nanos(), 4_000_000);
    }
}

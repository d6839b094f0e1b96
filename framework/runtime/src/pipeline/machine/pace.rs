//! How long an item keeps a replica busy, for whoever decides what it gets.

use std::time::Duration;

/// Weight of the newest interval once there have been a few.
const FRESH: f64 = 1.0 / 8.0;
/// Batches that keep a rank busy for longer give the next one time to come, even over a slow link.
const LONG: Duration = Duration::from_millis(10);

/// What a rank spends between beginning one batch of a block and the next one, per item: with what its other blocks
/// take of its time, but without waiting. The machine has no clock; its compute side says what each job took.
#[derive(Debug, Default)]
pub(super) struct Pace {
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

impl Pace {
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
    pub(super) fn ends(&mut self, busy: Duration) -> bool {
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
        (self.mean * 1e9) as u64
    }

    /// How far one item differs from another: its standard deviation in nanoseconds, 0 while that is not known.
    pub(super) fn deviation(&self) -> u64 {
        (self.variance.sqrt() * 1e9) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_work_counts_and_waiting_does_not() {
        let mut pace = Pace::default();
        let ms = Duration::from_millis;
        pace.begins(2, ms(0));
        assert!(pace.nanos() == 0 && !pace.is_brisk());
        // 4 ms on its two items, 6 ms on another block.
        pace.begins(1, ms(10));
        assert_eq!(pace.nanos(), 5_000_000);
        pace.begins(1, ms(11));
        assert_eq!(pace.nanos(), 3_000_000);
        for n in 0..100 {
            pace.begins(1, ms(11 + 7 * (n + 1)));
        }
        assert!(pace.nanos().abs_diff(7_000_000) < 10 && pace.is_brisk(), "{pace:?}");
        pace.begins(1, ms(2000));
        assert!(!pace.is_brisk(), "{pace:?}");
    }

    #[test]
    fn the_first_batch_tells_as_soon_as_it_is_done() {
        let mut pace = Pace::default();
        assert!(!pace.is_at_first() && !pace.ends(Duration::ZERO));
        pace.begins(1, Duration::ZERO);
        assert!(pace.is_at_first() && pace.ends(Duration::from_millis(3)));
        assert!(!pace.is_at_first() && pace.is_brisk() && !pace.ends(Duration::from_millis(4)));
        assert_eq!(pace.nanos(), 3_000_000);
    }

    #[test]
    fn items_that_differ_are_told_from_items_that_do_not() {
        let (mut even, mut uneven, mut batches) = (Pace::default(), Pace::default(), Pace::default());
        for n in 0..200 {
            even.begins(1, Duration::from_millis(4 * n));
            uneven.begins(1, Duration::from_millis(4 * n - 2 * (n % 2)));
            batches.begins(4, Duration::from_millis(16 * n - 4 * (n % 2)));
        }
        assert_eq!(even.deviation(), 0);
        // 2 ms and 6 ms in turn; the newest counts most. Four items together take 12 ms and 20 ms.
        for pace in [uneven, batches] {
            assert!(pace.deviation().abs_diff(2_000_000) < 100_000, "{pace:?}");
        }
    }

    #[test]
    fn batches_handed_over_together_do_not_look_free() {
        let mut pace = Pace::default();
        pace.begins(1, Duration::ZERO);
        pace.begins(1, Duration::ZERO);
        pace.begins(1, Duration::from_millis(4));
        assert_eq!(pace.nanos(), 4_000_000);
    }
}

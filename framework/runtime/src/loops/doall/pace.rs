//! How many units are done between two hooks.

use std::time::Duration;

/// A hook comes about every so many seconds: it costs about a microsecond, and a rank that waits for an answer waits for
/// a block.
const TARGET: f64 = 1e-3;
/// Blocks may take so many seconds where larger ones are faster.
const LONGEST: f64 = 16e-3;
/// No block is made shorter than this many seconds for the sake of the end of a pass.
const SHORTEST: f64 = 50e-6;
/// A block is at most this part of what is left: units may take longer from here on, and at the end of a pass the last
/// block of a rank is what the others wait for.
const PARTS: u64 = 8;
/// The part of the estimate that a new block replaces.
const SHARE: f64 = 0.25;
/// Smaller blocks are as good as the best if a unit takes at most this part longer in them.
const WORTH: f64 = 0.03;
/// Blocks of one size that are looked at before a larger one is tried, of which the fastest counts: other programs can only
/// slow one down.
const LOOKS: u32 = 3;

/// Chooses the size of blocks from how long units take.
///
/// At first sizes double until a block takes [`LONGEST`]. Then the smallest is taken that is as good as the best of them and
/// takes about [`TARGET`]: many kernels have work to do for a block, whatever its size.
#[derive(Clone, Debug)]
pub(super) struct Pace {
    fixed: Option<u64>,
    size: u64,
    /// Sizes that were tried, and seconds of a unit in the fastest block of each.
    tried: Vec<(u64, f64)>,
    /// Blocks of the present size that were looked at.
    looks: u32,
    /// Seconds of a unit, as last known; not before the first block.
    unit: Option<f64>,
    settled: bool,
}

impl Pace {
    /// Blocks of a fixed size, or of one that is chosen.
    pub(super) fn new(fixed: Option<u64>) -> Self {
        Pace { fixed, size: 1, tried: Vec::new(), looks: 0, unit: None, settled: false }
    }

    /// The usual size of a block.
    pub(super) fn usual(&self) -> u64 {
        self.fixed.unwrap_or(self.size)
    }

    /// The size of the next block, where so many units are left.
    pub(super) fn next(&self, left: u64) -> u64 {
        if let Some(fixed) = self.fixed {
            return fixed;
        }
        let least = self.unit.map_or(1, |unit| units_in(SHORTEST, unit));
        self.size.min(left.div_ceil(PARTS).max(least)).max(1)
    }

    /// A block was done.
    pub(super) fn done(&mut self, units: u64, took: Duration) {
        if self.fixed.is_some() || units == 0 {
            return;
        }
        let unit = took.as_secs_f64() / units as f64;
        if units < self.size {
            // Smaller ones, at the end of a pass, say little of the usual ones; but units may have become much slower.
            if unit * self.size as f64 > 2.0 * LONGEST {
                self.restart(unit);
            }
        } else if self.settled {
            let mean = self.unit.map_or(unit, |mean| mean + SHARE * (unit - mean));
            self.unit = Some(mean);
            let block = mean * self.size as f64;
            if block > 2.0 * LONGEST && self.size > 1 || block < TARGET / 4.0 {
                self.restart(mean);
            }
        } else {
            self.look(unit);
        }
    }

    /// A block of the size that is being tried was done.
    fn look(&mut self, unit: f64) {
        let fastest = match self.tried.last_mut() {
            Some((size, fastest)) if *size == self.size => {
                *fastest = fastest.min(unit);
                *fastest
            }
            _ => {
                self.tried.push((self.size, unit));
                unit
            }
        };
        self.unit = Some(fastest);
        self.looks += 1;
        let block = fastest * self.size as f64;
        if self.looks < LOOKS && block > TARGET / 8.0 {
            return;
        }
        self.looks = 0;
        if 2.0 * block <= LONGEST && self.size < u64::MAX / 2 {
            self.size *= 2;
        } else {
            self.settle();
        }
    }

    /// Takes the best of the sizes that were tried.
    fn settle(&mut self) {
        let best = self.tried.iter().map(|(_, unit)| *unit).fold(f64::INFINITY, f64::min);
        let is_good = |(size, unit): &&(u64, f64)| {
            *unit <= (1.0 + WORTH) * best && *unit * *size as f64 >= TARGET / 2.0
        };
        if let Some(&(size, unit)) = self.tried.iter().find(is_good) {
            (self.size, self.unit) = (size, Some(unit));
        }
        self.tried.clear();
        self.settled = true;
    }

    /// Units take so many seconds now: sizes are tried anew.
    fn restart(&mut self, unit: f64) {
        self.size = units_in(TARGET, unit).min(self.size);
        (self.unit, self.looks, self.settled) = (Some(unit), 0, false);
        self.tried.clear();
    }
}

/// Units of so many seconds each that fill this time, at least 1.
fn units_in(seconds: f64, unit: f64) -> u64 {
    // A unit that takes no time gives infinity, and that the largest number.
    (seconds / unit) as u64 | u64::from(seconds < unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Does so many blocks of a kernel that takes this time for a block and for a unit.
    fn settle(fixed: f64, unit: f64, blocks: usize) -> Pace {
        let mut pace = Pace::new(None);
        for _ in 0..blocks {
            let units = pace.next(u64::MAX);
            pace.done(units, Duration::from_secs_f64(fixed + unit * units as f64));
        }
        pace
    }

    #[test]
    fn blocks_take_about_a_millisecond() {
        for unit in [1e-7, 3e-6, 1e-4, 4e-4] {
            let block = settle(0.0, unit, 60).usual() as f64 * unit;
            assert!((0.25e-3..=2.1e-3).contains(&block), "units of {unit} s: blocks of {block} s");
        }
        assert_eq!(settle(0.0, 0.5, 60).usual(), 1);
    }

    #[test]
    fn blocks_grow_while_that_makes_units_faster() {
        let pace = settle(0.5e-3, 20e-6, 60);
        assert!((256..=1024).contains(&pace.usual()), "{}", pace.usual());
    }

    #[test]
    fn blocks_that_were_disturbed_do_not_count() {
        let mut pace = Pace::new(None);
        for n in 0..60 {
            let units = pace.next(u64::MAX);
            let disturbed = if n % 2 == 0 { 4e-3 } else { 0.0 };
            pace.done(units, Duration::from_secs_f64(1e-3 + 20e-6 * units as f64 + disturbed));
        }
        assert!((256..=1024).contains(&pace.usual()), "{}", pace.usual());
    }

    #[test]
    fn what_is_left_bounds_a_block_and_slower_units_shrink_it() {
        let mut pace = settle(0.0, 1e-6, 60);
        let usual = pace.usual();
        assert_eq!((pace.next(u64::MAX), pace.next(800), pace.next(100), pace.next(1)), (usual, 100, 50, 50));
        pace.done(100, Duration::from_millis(100));
        assert_eq!(pace.usual(), 1);
        let mut pace = settle(0.0, 1e-6, 60);
        pace.done(usual, Duration::from_millis(500));
        assert!(pace.usual() < usual / 8);
    }

    #[test]
    fn a_fixed_size_stays() {
        let mut pace = Pace::new(Some(7));
        pace.done(7, Duration::from_secs(7));
        assert_eq!((pace.next(100), pace.next(3), pace.usual()), (7, 7, 7));
        let mut free = Pace::new(None);
        for _ in 0..200 {
            free.done(free.usual(), Duration::ZERO);
        }
        assert!(free.next(64) >= 8, "units that take no time");
    }
}

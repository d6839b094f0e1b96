//! Work that a rank has measured, by kind.

use std::time::Duration;

use super::activity::{Longest, Work};

/// Time of a number of items of which some were timed: the others count at the mean of those.
///
/// The summary of a pipeline and the log of events scale with this function, so that both have the same account.
pub(crate) fn scaled(timed: Duration, timed_items: u64, items: u64) -> Duration {
    match timed_items {
        // Nothing is known of the others.
        0 => timed,
        n if n == items => timed,
        n => Duration::from_secs_f64(timed.as_secs_f64() * items as f64 / n as f64),
    }
}

/// Counts and times of user code and commands.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    pub(super) kinds: Vec<Kind>,
    pub(super) longest: Option<Longest>,
    /// Time of work that has begun, has not ended, and is not on the rank's own thread of user code: commands.
    running: Duration,
}

#[derive(Debug, Default)]
pub(super) struct Kind {
    /// Items in this part of the time.
    pub(super) done: u64,
    /// Items and their time since the begin of the run.
    items: u64,
    timed_items: u64,
    timed: Duration,
    /// Up to here the time is written.
    written: Duration,
    /// Items since the last [`Work`] was written, by step of their time.
    steps: Vec<u64>,
    /// The step of the items that were timed last.
    usual: usize,
    /// The part of a unit that is done and not counted yet.
    fraction: f64,
}

impl Kind {
    fn time(&self) -> Duration {
        scaled(self.timed, self.timed_items, self.items)
    }

    fn count(&mut self, count: u64) {
        self.done += count;
        self.items += count;
        if count > 0 {
            if self.usual >= self.steps.len() {
                self.steps.resize(self.usual + 1, 0);
            }
            self.steps[self.usual] += count;
        }
    }
}

impl Tally {
    pub(super) fn new(kinds: usize) -> Self {
        Tally { kinds: (0..kinds).map(|_| Kind::default()).collect(), ..Tally::default() }
    }

    /// Returns true if something was counted that is not written.
    pub(super) fn is_new(&self) -> bool {
        self.kinds.iter().any(|kind| kind.done > 0 || kind.steps.iter().any(|&count| count > 0))
    }

    /// The last of the kinds.
    pub(crate) fn last_kind(&self) -> usize {
        self.kinds.len().saturating_sub(1)
    }

    /// Counts `count` items, tasks or units of kind `of`, from number `first` on, which took `took` together.
    #[inline]
    pub(crate) fn add(&mut self, of: usize, first: Option<u64>, count: u64, took: Duration) {
        let Some(kind) = self.kinds.get_mut(of) else { return };
        kind.timed += took;
        kind.timed_items += count;
        if let Some(each) = (took.as_nanos() as u64).checked_div(count) {
            kind.usual = Work::step_of(each) as usize;
        }
        kind.count(count);
        let seconds = took.as_secs_f64();
        if self.longest.as_ref().is_none_or(|longest| seconds > longest.seconds) {
            self.longest = Some(Longest { of, first, count, seconds });
        }
    }

    /// Counts items whose time was not taken.
    #[inline]
    pub(crate) fn add_untimed(&mut self, of: usize, count: u64) {
        if let Some(kind) = self.kinds.get_mut(of) {
            kind.count(count);
        }
    }

    /// Counts units of kind 0 that were done in parts.
    pub(crate) fn add_parts(&mut self, units: f64, took: Duration) {
        let Some(kind) = self.kinds.first_mut() else { return };
        // Sums of parts are a little off whole numbers.
        const ROUNDING: f64 = 1e-6;
        let units = kind.fraction + units;
        let whole = (units + ROUNDING).floor();
        kind.fraction = units - whole;
        self.add(0, None, whole as u64, took);
    }

    /// Sets the time of commands that have begun and not ended.
    pub(crate) fn set_running(&mut self, running: Duration) {
        self.running = running;
    }

    /// Time of all work since the begin of the run.
    pub(super) fn time(&self) -> Duration {
        self.kinds.iter().map(Kind::time).sum::<Duration>() + self.running
    }

    /// Takes what is to be written, by kind.
    pub(super) fn take(&mut self) -> Vec<Work> {
        let mut all = Vec::new();
        for (of, kind) in self.kinds.iter_mut().enumerate() {
            let some = kind.steps.iter_mut().enumerate().filter(|(_, count)| **count > 0);
            let steps: Vec<(u32, u64)> =
                some.map(|(step, count)| (step as u32, std::mem::take(count))).collect();
            // An estimate may have become smaller.
            let time = kind.time().max(kind.written);
            let seconds = time.saturating_sub(std::mem::replace(&mut kind.written, time)).as_secs_f64();
            let done = steps.iter().map(|(_, count)| count).sum();
            if done > 0 || seconds > 0.0 {
                all.push(Work { of, done, seconds, steps });
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn items_without_a_time_count_at_the_mean_of_those_that_have_one() {
        let mut tally = Tally::new(2);
        tally.add(0, Some(0), 2, 4 * MS);
        tally.add_untimed(0, 3);
        tally.add_untimed(1, 7);
        assert_eq!(tally.time(), 10 * MS);
        let work = tally.take();
        let told: Vec<_> = work.iter().map(|work| (work.of, work.done, work.seconds)).collect();
        assert_eq!(told, [(0, 5, 0.01), (1, 7, 0.0)]);
        // The mean falls to 1 ms; what was written before is not taken back.
        tally.add(0, None, 2, Duration::ZERO);
        assert_eq!((tally.time(), tally.take()[0].seconds), (7 * MS, 0.0));
        tally.set_running(5 * MS);
        assert_eq!(tally.time(), 12 * MS);
    }

    #[test]
    fn parts_of_units_add_up_to_units() {
        let mut tally = Tally::new(1);
        (0..30).for_each(|_| tally.add_parts(0.1, MS));
        assert_eq!((tally.take()[0].done, tally.time()), (3, 30 * MS));
    }
}

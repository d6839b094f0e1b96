//! When to sync. Pure: time comes in from outside.

use std::time::Duration;

/// Decides when what was written is synced: not more often than once a period, and one sync at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Pace {
    pub(super) period: Duration,
    last: Option<Duration>,
    unsynced: bool,
    running: bool,
}

impl Pace {
    pub(super) fn new(period: Duration) -> Self {
        Pace { period, last: None, unsynced: false, running: false }
    }

    /// Something was written.
    pub(super) fn wrote(&mut self) {
        self.unsynced = true;
    }

    /// A sync has ended.
    pub(super) fn ended(&mut self) {
        self.running = false;
    }

    /// Whether a sync is to begin at `now`; if so, it has begun.
    pub(super) fn begin(&mut self, now: Duration) -> bool {
        let rested = self.last.is_none_or(|last| now.saturating_sub(last) >= self.period);
        let begin = self.unsynced && !self.running && rested;
        if begin {
            (self.unsynced, self.running, self.last) = (false, true, Some(now));
        }
        begin
    }

    /// Whether something was written and no sync has begun since.
    pub(super) fn unsynced(&self) -> bool {
        self.unsynced
    }

    /// Whether a sync has begun and not ended.
    pub(super) fn running(&self) -> bool {
        self.running
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn one_sync_a_period_and_only_when_there_is_something() {
        let mut pace = Pace::new(ms(100));
        assert!(!pace.begin(ms(0)), "nothing was written");
        pace.wrote();
        assert!(pace.begin(ms(7)), "the first waits for nothing");
        pace.ended();
        pace.wrote();
        let begun: Vec<u64> = (8..400)
            .filter(|&t| {
                let begin = pace.begin(ms(t));
                if begin {
                    pace.ended();
                }
                pace.wrote();
                begin
            })
            .collect();
        assert_eq!(begun, [107, 207, 307]);
    }

    #[test]
    fn a_slow_sync_is_not_overtaken() {
        let mut pace = Pace::new(ms(10));
        pace.wrote();
        assert!(pace.begin(ms(0)));
        pace.wrote();
        assert!(!pace.begin(ms(500)));
        pace.ended();
        assert!(pace.begin(ms(501)));
        assert!(!pace.unsynced() && pace.running());
    }
}

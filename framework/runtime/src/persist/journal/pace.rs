//! Schedule of the syncs (`fsync`) of a journal (file of completed results), without a clock: the caller passes the time.

use std::time::Duration;

/// Schedule of the syncs (`fsync`) of a journal's file: at most one sync per period, and one at a time.
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

    pub(super) fn wrote(&mut self) {
        self.unsynced = true;
    }

    pub(super) fn ended(&mut self) {
        self.running = false;
    }

    pub(super) fn begin(&mut self, now: Duration) -> bool {
        let rested = self.last.is_none_or(|last| now.saturating_sub(last) >= self.period);
        let begin = self.unsynced && !self.running && rested;
        if begin {
            (self.unsynced, self.running, self.last) = (false, true, Some(now));
        }
        begin
    }

    /// Returns true if data was written to the journal's file after the start of the last sync (`fsync`).
    pub(super) fn unsynced(&self) -> bool {
        self.unsynced
    }

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
    fn unsynced_data_is_synced_once_per_period() {
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
    fn no_sync_starts_while_another_is_running() {
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

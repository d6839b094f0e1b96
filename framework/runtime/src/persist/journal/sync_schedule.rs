//! Schedule of the syncs (`fsync`) of a journal (file of completed results), without a clock: the caller passes the time.

use std::time::Duration;

/// Schedule of the syncs (`fsync`) of a journal's file: at most one sync per period, and one at a time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SyncSchedule {
    pub(super) period: Duration,
    last: Option<Duration>,
    unsynced: bool,
    running: bool,
}

impl SyncSchedule {
    pub(super) fn new(period: Duration) -> Self {
        SyncSchedule { period, last: None, unsynced: false, running: false }
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
        let mut sync_schedule = SyncSchedule::new(ms(100));
        assert!(!sync_schedule.begin(ms(0)), "nothing was written");
        sync_schedule.wrote();
        assert!(sync_schedule.begin(ms(7)), "the first waits for nothing");
        sync_schedule.ended();
        sync_schedule.wrote();
        let begun: Vec<u64> = (8..400)
            .filter(|&t| {
                let begin = sync_schedule.begin(ms(t));
                if begin {
                    sync_schedule.ended();
                }
                sync_schedule.wrote();
                begin
            })
            .collect();
        assert_eq!(begun, [107, 207, 307]);
    }

    #[test]
    fn no_sync_starts_while_another_is_running() {
        let mut sync_schedule = SyncSchedule::new(ms(10));
        sync_schedule.wrote();
        assert!(sync_schedule.begin(ms(0)));
        sync_schedule.wrote();
        assert!(!sync_schedule.begin(ms(500)));
        sync_schedule.ended();
        assert!(sync_schedule.begin(ms(501)));
        assert!(!sync_schedule.unsynced() && sync_schedule.running());
    }
}

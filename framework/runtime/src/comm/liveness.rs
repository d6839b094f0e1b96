//! Silence of other ranks, measured on a clock that runs only while this rank polls.
//!
//! All processes of a job may be stopped for a while and resumed later. The first rank to resume has then received nothing during that time,
//! but it has not polled either. Therefore the silence of other ranks is measured in time during which this rank polled for messages. Time in
//! which this rank was in user code or had no core does not count either.

use std::time::Duration;

/// Period of heartbeats of a rank that sends no other messages, and period of the checks of other ranks' processes. The period is far below the
/// silence after which a rank counts as dead, which is given in seconds. A check reads one file per rank, which takes some microseconds.
pub(crate) const HEARTBEAT_PERIOD: Duration = Duration::from_secs(1);

/// Longest interval between two polls that counts in full as time in which the rank polled; of a longer interval only this time counts. A waiting
/// rank polls every few milliseconds.
const GAP: Duration = Duration::from_millis(250);

/// Clock that stops while its rank does not poll for messages, and the silence of each other rank on this clock.
#[derive(Debug)]
pub(crate) struct Liveness {
    gap: Duration,
    last_poll: Duration,
    polled: Duration,
    /// For each rank, the time of its last message, on the clock that runs only while this rank polls.
    record_message: Vec<Duration>,
}

impl Liveness {
    pub(crate) fn new(size: usize, now: Duration, longest_sleep: Duration) -> Self {
        let record_message = vec![Duration::ZERO; size];
        Liveness { gap: GAP.max(longest_sleep * 4), last_poll: now, polled: Duration::ZERO, record_message }
    }

    /// Advances the clock of polled time at a poll at time `now`. Returns the total time during which the rank has polled.
    pub(crate) fn record_poll(&mut self, now: Duration) -> Duration {
        self.polled += now.saturating_sub(self.last_poll).min(self.gap);
        self.last_poll = self.last_poll.max(now);
        self.polled
    }

    #[inline]
    pub(crate) fn record_message(&mut self, rank: usize) {
        self.record_message[rank] = self.polled;
    }

    /// Returns the time since the last message from `rank`, counting only time in which this rank has polled.
    pub(crate) fn silence(&self, rank: usize) -> Duration {
        self.polled.saturating_sub(self.record_message[rank])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn suspended_time_hardly_counts_as_silence() {
        let mut liveness = Liveness::new(2, 100 * MS, MS);
        assert_eq!(liveness.record_poll(300 * MS), 200 * MS);
        assert_eq!(liveness.record_poll(60_000 * MS), 450 * MS, "it was stopped");
        assert_eq!(liveness.record_poll(60_010 * MS), 460 * MS);
        assert_eq!(liveness.record_poll(60_000 * MS), 460 * MS, "a clock does not go back");
        liveness.record_message(1);
        liveness.record_poll(60_030 * MS);
        assert_eq!([liveness.silence(0), liveness.silence(1)], [480 * MS, 20 * MS]);
    }

    #[test]
    fn configured_long_sleep_is_not_an_absence() {
        let mut liveness = Liveness::new(1, Duration::ZERO, 200 * MS);
        assert_eq!(liveness.record_poll(700 * MS), 700 * MS);
        assert_eq!(liveness.record_poll(5_000 * MS), 1_500 * MS);
    }
}

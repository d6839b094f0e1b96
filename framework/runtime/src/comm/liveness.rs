//! Time as far as this rank was there to see it pass.
//!
//! All processes of a job can be stopped for a while and go on later. Whoever goes
//! on first then has heard nobody for all that time, and has not looked either. So the silence of others is measured in
//! time in which this rank looked for messages; the same goes for a rank that was in user code meanwhile, or had no core.

use std::time::Duration;

/// The time between two signs of life of a rank that nobody would hear of otherwise, and between two looks at the others' processes. Far below
/// the limits of silence, which are given in seconds; a look reads a file a rank, some microseconds.
pub(crate) const HEARTBEAT_PERIOD: Duration = Duration::from_secs(1);

/// What counts of the time between two looks at most. Whoever waits looks every few milliseconds.
const GAP: Duration = Duration::from_millis(250);

/// A clock that stands still while its rank does not look, and how long others have been silent by it.
#[derive(Debug)]
pub(crate) struct Liveness {
    gap: Duration,
    looked: Duration,
    here: Duration,
    /// When each rank was last heard: as of the last look.
    heard: Vec<Duration>,
}

impl Liveness {
    /// Starts at `now`, for one of `size` ranks that sleeps for at most `longest_sleep` while it waits.
    pub(crate) fn new(size: usize, now: Duration, longest_sleep: Duration) -> Self {
        let heard = vec![Duration::ZERO; size];
        Liveness { gap: GAP.max(longest_sleep * 4), looked: now, here: Duration::ZERO, heard }
    }

    /// The rank looks, at `now` by its clock. Returns the time until now in which it did.
    pub(crate) fn look(&mut self, now: Duration) -> Duration {
        self.here += now.saturating_sub(self.looked).min(self.gap);
        self.looked = self.looked.max(now);
        self.here
    }

    /// Something has come from `rank`.
    #[inline]
    pub(crate) fn heard(&mut self, rank: usize) {
        self.heard[rank] = self.here;
    }

    /// How long nothing has come from `rank`.
    pub(crate) fn silence(&self, rank: usize) -> Duration {
        self.here.saturating_sub(self.heard[rank])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn time_without_a_look_hardly_counts() {
        let mut liveness = Liveness::new(2, 100 * MS, MS);
        assert_eq!(liveness.look(300 * MS), 200 * MS);
        assert_eq!(liveness.look(60_000 * MS), 450 * MS, "it was stopped");
        assert_eq!(liveness.look(60_010 * MS), 460 * MS);
        assert_eq!(liveness.look(60_000 * MS), 460 * MS, "a clock does not go back");
        liveness.heard(1);
        liveness.look(60_030 * MS);
        assert_eq!([liveness.silence(0), liveness.silence(1)], [480 * MS, 20 * MS]);
    }

    #[test]
    fn a_rank_that_is_to_sleep_long_was_not_away() {
        let mut liveness = Liveness::new(1, Duration::ZERO, 200 * MS);
        assert_eq!(liveness.look(700 * MS), 700 * MS);
        assert_eq!(liveness.look(5_000 * MS), 1_500 * MS);
    }
}

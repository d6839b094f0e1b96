//! Backoff of an idle rank: a short spin if the rank has its own core, then sleeps that double, but stay short while a message is being
//! received.

use std::time::Duration;

use crate::comm::Transport;
use crate::comm::clock::Clock;
use crate::error::Result;

/// Length of the first sleep of an idle rank, after a phase in which it polls without sleeping. A shorter sleep costs more for wake-ups than it saves
/// in delay.
const FIRST_SLEEP: Duration = Duration::from_micros(10);

/// Length of the first sleep while another thread of the rank computes. That thread loses the core at each wake-up. Computations on a separate thread
/// take a millisecond or more.
const FIRST_SLEEP_WHILE_COMPUTING: Duration = Duration::from_micros(160);

/// A wait for messages that becomes longer at each call of [`wait`](Backoff::wait), until [`reset`](Backoff::reset) is called.
#[derive(Debug)]
pub(crate) struct Backoff {
    spin: Duration,
    spinning: bool,
    longest: Duration,
    idle_since: Option<Duration>,
    first: Duration,
    sleep: Duration,
}

impl Backoff {
    /// Creates a backoff that polls without sleeping (spins) for `spin`, zero if ranks share cores, and then sleeps for at most `longest` at a time.
    pub(crate) fn new(spin: Duration, longest: Duration) -> Self {
        Backoff { spin, spinning: true, longest, idle_since: None, first: FIRST_SLEEP, sleep: FIRST_SLEEP }
    }

    /// Sets whether the rank may poll without sleeping (spin), which it must not do while another of its threads computes.
    pub(crate) fn may_spin(&mut self, yes: bool) {
        self.spinning = yes;
    }

    /// Sets whether another thread of this rank computes, which sleeps should interrupt rarely.
    pub(crate) fn other_thread_computes(&mut self, yes: bool) {
        self.first = if yes { FIRST_SLEEP_WHILE_COMPUTING } else { FIRST_SLEEP };
    }

    #[inline]
    pub(crate) fn reset(&mut self) {
        self.idle_since = None;
        self.sleep = FIRST_SLEEP;
    }

    /// Sleeps once, or polls without sleeping. A message, or the compute thread of this rank, ends the sleep early if the transport supports it.
    pub(crate) fn wait(&mut self, transport: &mut dyn Transport, clock: Clock) -> Result<()> {
        if clock.is_simulated() {
            // A simulated rank waits for a message without a limit: polling does not advance simulated time, and the simulator itself reports a
            // deadlock.
            return transport.wait(None);
        }
        match self.next(clock.now(), transport.is_receiving()) {
            Some(sleep) => transport.wait(Some(sleep)),
            None => {
                std::hint::spin_loop();
                Ok(())
            }
        }
    }

    /// Returns the length of the sleep at `now`, or `None` to spin. Sleeps stay short while a message is being received: with shared memory or TCP a
    /// message is copied piece by piece, and makes progress only when this rank polls.
    fn next(&mut self, now: Duration, is_receiving: bool) -> Option<Duration> {
        let since = *self.idle_since.get_or_insert(now);
        if self.spinning && now.saturating_sub(since) < self.spin {
            return None;
        }
        if is_receiving {
            self.sleep = self.first;
        }
        let sleep = self.sleep.max(self.first).min(self.longest);
        self.sleep = (sleep * 2).min(self.longest.max(FIRST_SLEEP));
        Some(sleep)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn sleeps(backoff: &mut Backoff) -> Vec<u128> {
        backoff.reset();
        (0..8).filter_map(|_| backoff.next(MS, false)).map(|sleep| sleep.as_micros()).collect()
    }

    #[test]
    fn sleeps_double_and_start_longer_during_computation() {
        let mut backoff = Backoff::new(Duration::ZERO, MS);
        let alone = [10, 20, 40, 80, 160, 320, 640, 1000];
        assert_eq!(sleeps(&mut backoff), alone);
        backoff.other_thread_computes(true);
        assert_eq!(sleeps(&mut backoff), [160, 320, 640, 1000, 1000, 1000, 1000, 1000]);
        backoff.other_thread_computes(false);
        assert_eq!(sleeps(&mut backoff), alone);
    }

    #[test]
    fn sleep_never_exceeds_the_maximum() {
        let mut backoff = Backoff::new(Duration::ZERO, Duration::from_micros(50));
        backoff.other_thread_computes(true);
        assert_eq!(sleeps(&mut backoff), [50; 8]);
    }

    #[test]
    fn sleeps_stay_short_while_receiving() {
        let mut backoff = Backoff::new(Duration::ZERO, MS);
        sleeps(&mut backoff);
        let is_receiving = [false, true, true, true, false, false];
        let lengths = is_receiving.map(|yes| backoff.next(MS, yes).map(|sleep| sleep.as_micros()));
        assert_eq!(lengths, [1000, 10, 10, 10, 20, 40].map(Some));
        backoff.other_thread_computes(true);
        assert_eq!([true; 3].map(|yes| backoff.next(MS, yes)), [Some(FIRST_SLEEP_WHILE_COMPUTING); 3]);
    }

    #[test]
    fn backoff_spins_first_if_allowed() {
        let mut backoff = Backoff::new(MS, MS);
        assert_eq!([backoff.next(MS, false), backoff.next(MS * 3 / 2, true)], [None, None]);
        assert_eq!(backoff.next(2 * MS, false), Some(FIRST_SLEEP));
        backoff.reset();
        assert_eq!(backoff.next(3 * MS, false), None);
        backoff.may_spin(false);
        assert_eq!(backoff.next(3 * MS, false), Some(FIRST_SLEEP));
    }
}

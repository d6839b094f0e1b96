//! How an idle rank waits: a short spin while the core is its own, then sleeps that double, unless a message is just coming.

use std::time::Duration;

use crate::comm::Transport;
use crate::comm::clock::Clock;
use crate::error::Result;

/// The first sleep after the spin. Shorter ones cost more in wake-ups than they save in delay.
const FIRST_SLEEP: Duration = Duration::from_micros(10);

/// The first sleep while another thread of the rank computes, which loses the core at each wake-up. Jobs that are given a
/// thread of their own take a millisecond or more.
const FIRST_SLEEP_BESIDE: Duration = Duration::from_micros(160);

/// Waits longer each time it is asked, until [`reset`](Backoff::reset) says that something happened.
#[derive(Debug)]
pub(crate) struct Backoff {
    spin: Duration,
    spinning: bool,
    longest: Duration,
    idle_since: Option<Duration>,
    first: Duration,
    /// The next sleep, unless `first` is longer.
    sleep: Duration,
}

impl Backoff {
    /// Spins for `spin` first (zero where ranks share cores), then sleeps for at most `longest` at a time.
    pub(crate) fn new(spin: Duration, longest: Duration) -> Self {
        Backoff { spin, spinning: true, longest, idle_since: None, first: FIRST_SLEEP, sleep: FIRST_SLEEP }
    }

    /// Whether it may spin at all: not while another thread of this rank computes.
    pub(crate) fn may_spin(&mut self, yes: bool) {
        self.spinning = yes;
    }

    /// Whether another thread of this rank computes just now and should seldom be interrupted.
    pub(crate) fn is_beside_work(&mut self, yes: bool) {
        self.first = if yes { FIRST_SLEEP_BESIDE } else { FIRST_SLEEP };
    }

    /// Progress was made: the next wait is short again.
    #[inline]
    pub(crate) fn reset(&mut self) {
        self.idle_since = None;
        self.sleep = FIRST_SLEEP;
    }

    /// Waits once. Messages, and the compute thread's waker, end the sleep early where the transport can.
    pub(crate) fn wait(&mut self, transport: &mut dyn Transport, clock: Clock) -> Result<()> {
        if clock.is_simulated() {
            // Polling would not let simulated time pass; the simulator itself reports a deadlock.
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

    /// How long to sleep at `now`; not at all while it spins. While a message is coming sleeps stay short: where it is
    /// copied piece by piece (shared memory, TCP) it goes on only when this rank looks.
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

    /// The sleeps of one wait without spinning, in microseconds.
    fn sleeps(backoff: &mut Backoff) -> Vec<u128> {
        backoff.reset();
        (0..8).filter_map(|_| backoff.next(MS, false)).map(|sleep| sleep.as_micros()).collect()
    }

    #[test]
    fn sleeps_double_and_begin_longer_beside_a_thread_that_computes() {
        let mut backoff = Backoff::new(Duration::ZERO, MS);
        let alone = [10, 20, 40, 80, 160, 320, 640, 1000];
        assert_eq!(sleeps(&mut backoff), alone);
        backoff.is_beside_work(true);
        assert_eq!(sleeps(&mut backoff), [160, 320, 640, 1000, 1000, 1000, 1000, 1000]);
        backoff.is_beside_work(false);
        assert_eq!(sleeps(&mut backoff), alone);
    }

    #[test]
    fn no_sleep_is_longer_than_asked_for() {
        let mut backoff = Backoff::new(Duration::ZERO, Duration::from_micros(50));
        backoff.is_beside_work(true);
        assert_eq!(sleeps(&mut backoff), [50; 8]);
    }

    #[test]
    fn sleeps_stay_short_while_a_message_is_coming() {
        let mut backoff = Backoff::new(Duration::ZERO, MS);
        sleeps(&mut backoff);
        let is_receiving = [false, true, true, true, false, false];
        let lengths = is_receiving.map(|yes| backoff.next(MS, yes).map(|sleep| sleep.as_micros()));
        assert_eq!(lengths, [1000, 10, 10, 10, 20, 40].map(Some));
        backoff.is_beside_work(true);
        assert_eq!([true; 3].map(|yes| backoff.next(MS, yes)), [Some(FIRST_SLEEP_BESIDE); 3]);
    }

    #[test]
    fn it_spins_first_where_it_may() {
        let mut backoff = Backoff::new(MS, MS);
        assert_eq!([backoff.next(MS, false), backoff.next(MS * 3 / 2, true)], [None, None]);
        assert_eq!(backoff.next(2 * MS, false), Some(FIRST_SLEEP));
        backoff.reset();
        assert_eq!(backoff.next(3 * MS, false), None);
        backoff.may_spin(false);
        assert_eq!(backoff.next(3 * MS, false), Some(FIRST_SLEEP));
    }
}

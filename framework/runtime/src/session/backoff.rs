//! How an idle rank waits: a short spin while the core is its own, then sleeps that double.

use std::time::Duration;

use crate::clock::Clock;
use crate::error::Result;
use crate::transport::Transport;

/// The first sleep after the spin. Shorter ones cost more in wake-ups than they save in delay.
const FIRST_SLEEP: Duration = Duration::from_micros(10);

/// Waits longer each time it is asked, until [`reset`](Backoff::reset) says that something happened.
#[derive(Debug)]
pub(crate) struct Backoff {
    spin: Duration,
    spinning: bool,
    longest: Duration,
    idle_since: Option<Duration>,
    sleep: Duration,
}

impl Backoff {
    /// Spins for `spin` first (zero where ranks share cores), then sleeps for at most `longest` at a time.
    pub(crate) fn new(spin: Duration, longest: Duration) -> Self {
        Backoff { spin, spinning: true, longest, idle_since: None, sleep: FIRST_SLEEP }
    }

    /// Whether it may spin at all: not while another thread of this rank computes.
    pub(crate) fn may_spin(&mut self, yes: bool) {
        self.spinning = yes;
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
        let now = clock.now();
        let since = *self.idle_since.get_or_insert(now);
        if self.spinning && now.saturating_sub(since) < self.spin {
            std::hint::spin_loop();
            return Ok(());
        }
        let sleep = self.sleep.min(self.longest);
        self.sleep = (self.sleep * 2).min(self.longest.max(FIRST_SLEEP));
        transport.wait(Some(sleep))
    }
}

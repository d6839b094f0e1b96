//! Turns of a rank's loop: how many messages one takes in, when the clock is looked at, and how the rank waits.

use std::time::Duration;

use crate::comm::Backoff;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::Result;

/// Messages that a turn takes in: results that come at once are not answered one by one, and the rank's own executor does not
/// wait for long.
pub(super) const BURST: usize = 16;
/// Turns between two looks at the clock while there is work: reading it costs as much as a short turn.
const TURNS_PER_TICK: u32 = 64;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Turns {
    backoff: Backoff,
    busy: u32,
}

impl Turns {
    pub(super) fn new(backoff: Backoff) -> Self {
        Turns { backoff, busy: 0 }
    }

    /// A turn ends in which something was done, or not (`moved`). Returns whether the rank is to look at the clock.
    pub(super) fn end(&mut self, moved: bool) -> bool {
        if moved {
            self.backoff.reset();
            self.busy = (self.busy + 1) % TURNS_PER_TICK;
        }
        !moved || self.busy == 0
    }

    /// Waits for messages: for `pause` in the simulator, else as long as the backoff says, busily at first if the rank
    /// `may_spin`.
    pub(super) fn wait(
        &mut self,
        endpoint: &mut Endpoint,
        clock: Clock,
        pause: Option<Duration>,
        may_spin: bool,
    ) -> Result<()> {
        self.backoff.may_spin(may_spin);
        match pause {
            Some(pause) => endpoint.transport().wait(Some(pause)),
            None => self.backoff.wait(endpoint.transport(), clock),
        }
    }
}

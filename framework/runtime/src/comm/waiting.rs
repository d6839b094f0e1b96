//! A wait for other ranks: what a rank does while it cannot go on, how long it does so, and what it says meanwhile.

use std::time::Duration;

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use super::liveness::HEARTBEAT_PERIOD;
use super::message::Message;
use crate::error::{Error, ErrorKind, Result};

/// After so long a rank says for whom it waits. People begin to wonder about then; whatever is usual in a run is over
/// sooner.
const FIRST_WORD: Duration = Duration::from_secs(10);

/// Says when it is time to tell for whom a rank waits: after ten seconds, and whenever the wait has doubled since.
#[derive(Debug)]
pub(crate) struct Reminder {
    next: Duration,
}

impl Reminder {
    pub(crate) fn new() -> Self {
        Reminder { next: FIRST_WORD }
    }

    /// Whether a wait that has lasted for `waited` is to be told of now.
    pub(crate) fn is_due(&mut self, waited: Duration) -> bool {
        let due = waited >= self.next;
        if due {
            self.next = waited * 2;
        }
        due
    }
}

/// A wait that is going on.
#[derive(Debug)]
pub(crate) struct Waiting {
    backoff: Backoff,
    /// When it began, as the endpoint counts silence.
    start: Duration,
    /// When something came last, as the endpoint counts silence.
    last: Duration,
    /// When to look next whether the others live, by the rank's clock.
    look: Duration,
    reminder: Reminder,
}

impl Waiting {
    /// It begins now.
    pub(crate) fn new(endpoint: &mut Endpoint) -> Self {
        let began = endpoint.clock().now();
        let start = endpoint.look(began);
        let backoff = endpoint.backoff();
        Waiting { backoff, start, last: start, look: began + HEARTBEAT_PERIOD, reminder: Reminder::new() }
    }

    /// Something has come from those who are waited for.
    pub(crate) fn heard(&mut self, endpoint: &mut Endpoint) {
        let now = endpoint.clock().now();
        (self.last, self.look) = (endpoint.look(now), now + HEARTBEAT_PERIOD);
        self.backoff.reset();
    }

    /// Waits a little. Nothing may come for `limit`; `what` says for whom the rank waits, in words that follow "waited 3 s".
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] beyond the limit, and when the process of a rank that the job needs is seen to have ended.
    pub(crate) fn wait(
        &mut self,
        endpoint: &mut Endpoint,
        limit: Duration,
        what: impl Fn() -> String,
    ) -> Result<()> {
        let clock = endpoint.clock();
        if endpoint.capabilities().real_time {
            let now = clock.now();
            let here = endpoint.look(now);
            let silent = here.saturating_sub(self.last);
            if silent > limit {
                let text = format!("waited {:.0} s {}", silent.as_secs_f64(), what());
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()));
            }
            if now >= self.look {
                self.look = now + HEARTBEAT_PERIOD;
                endpoint.check_alive(&what)?;
                let waited = here.saturating_sub(self.start);
                if self.reminder.is_due(waited) {
                    log::warn!("has waited {:.0} s {}", waited.as_secs_f64(), what());
                }
            }
        }
        self.backoff.wait(endpoint.transport(), clock)
    }
}

impl Endpoint {
    /// Waits for messages until `step` is satisfied; `waiting_for` is asked for a description when the
    /// limit of silence is reached.
    pub(crate) fn wait_until<R>(
        &mut self,
        limit: Duration,
        mut step: impl FnMut(&mut Endpoint, Option<Message>) -> Result<Option<R>>,
        waiting_for: impl Fn() -> String,
    ) -> Result<R> {
        if let Some(done) = step(self, None)? {
            return Ok(done);
        }
        let mut patience = Waiting::new(self);
        loop {
            match self.poll()? {
                Some(message) => {
                    patience.heard(self);
                    if let Some(done) = step(self, Some(message))? {
                        return Ok(done);
                    }
                }
                None => patience.wait(self, limit, &waiting_for)?,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_wait_is_told_of_more_and_more_rarely() {
        let mut reminder = Reminder::new();
        let told = (0..200).filter(|&second| reminder.is_due(Duration::from_secs(second)));
        assert_eq!(told.collect::<Vec<_>>(), [10, 20, 40, 80, 160]);
    }
}

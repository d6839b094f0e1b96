//! A wait for other ranks: what a rank does while it cannot go on, how long it does so, and what it says meanwhile.

use std::time::Duration;

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use super::liveness::HEARTBEAT_PERIOD;
use super::message::{Control, Message, Tagged};
use crate::error::{Error, ErrorKind, Result};

/// After so long a rank says for whom it waits. People begin to wonder about then; whatever is usual in a run is over
/// sooner.
pub(crate) const FIRST_WORD: Duration = Duration::from_secs(10);

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
        self.last = endpoint.look(now);
        self.backoff.reset();
    }

    /// Waits a little. Nothing may come for `limit`; `what` says for whom the rank waits, in words that follow "waited 3 s".
    /// Returns whether it is time for a sign of life to those who wait for this rank: each second, in real time.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] beyond the limit, and when the process of a rank that the job needs is seen to have ended.
    pub(crate) fn wait(
        &mut self,
        endpoint: &mut Endpoint,
        limit: Duration,
        what: impl Fn() -> String,
    ) -> Result<bool> {
        let clock = endpoint.clock();
        let mut is_due = false;
        if endpoint.capabilities().real_time {
            let now = clock.now();
            let here = endpoint.look(now);
            let silent = here.saturating_sub(self.last);
            if silent > limit {
                let text = format!("waited {:.0} s {}", silent.as_secs_f64(), what());
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()));
            }
            is_due = now >= self.look;
            if is_due {
                self.look = now + HEARTBEAT_PERIOD;
                endpoint.check_alive(&what)?;
                let waited = here.saturating_sub(self.start);
                if self.reminder.is_due(waited) {
                    log::warn!("has waited {:.0} s {}", waited.as_secs_f64(), what());
                }
            }
        }
        self.backoff.wait(endpoint.transport(), clock)?;
        Ok(is_due)
    }
}

/// How long a rank may be silent while another one waits for it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Before it has given a sign of life: it may be in the program's own code.
    pub(crate) join: Duration,
    /// After it has: it waits, too, and says so every second.
    pub(crate) peer: Duration,
}

/// A wait for one rank.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits<'w> {
    pub(crate) whom: usize,
    pub(crate) limits: Limits,
    /// Who may be waiting for this rank meanwhile, and gets signs of life from it.
    pub(crate) signs: &'w [usize],
}

impl Endpoint {
    /// Waits for a message that is `wanted` by its sender and its tag; others stay where they are. `what` says for whom the rank
    /// waits, in words that follow "waited 3 s".
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the rank that is waited for is silent for too long, or the process of one that the job needs
    /// is seen to have ended.
    pub(crate) fn await_from(
        &mut self,
        waits: &Waits<'_>,
        wanted: impl Fn(usize, u8) -> bool,
        what: impl Fn() -> String,
    ) -> Result<Message> {
        let is_sign = |from: usize, tag: u8| from == waits.whom && tag == Control::Heartbeat.byte();
        let mut limit = waits.limits.join;
        let mut patience: Option<Waiting> = None;
        loop {
            let message = self.poll_for(|from, tag| wanted(from, tag) || is_sign(from, tag))?;
            match message {
                Some(message) if is_sign(message.from, message.code) => {
                    limit = waits.limits.peer;
                    patience.iter_mut().for_each(|patience| patience.heard(self));
                }
                Some(message) => return Ok(message),
                None => {
                    let patience = patience.get_or_insert_with(|| Waiting::new(self));
                    if patience.wait(self, limit, &what)? {
                        waits.signs.iter().try_for_each(|&rank| self.give_sign(rank))?;
                    }
                }
            }
        }
    }

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
                None => {
                    patience.wait(self, limit, &waiting_for)?;
                }
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

//! Waits of a rank for messages of other ranks: sleeps between polls, time limit and log messages.

use std::time::Duration;

use super::backoff::Backoff;
use super::endpoint::Endpoint;
use super::liveness::HEARTBEAT_PERIOD;
use super::message::{Control, Message, Tagged};
use crate::error::{Error, ErrorKind, Result};

/// Duration of a rank's wait after which a log message names the ranks that it waits for. Ordinary waits are shorter.
pub(crate) const FIRST_REMINDER: Duration = Duration::from_secs(10);

/// Schedule of the log messages about a long wait: after ten seconds, and whenever the duration of the wait has doubled.
#[derive(Debug)]
pub(crate) struct Reminder {
    next: Duration,
}

impl Reminder {
    pub(crate) fn new() -> Self {
        Reminder { next: FIRST_REMINDER }
    }

    pub(crate) fn is_due(&mut self, waited: Duration) -> bool {
        let due = waited >= self.next;
        if due {
            self.next = waited * 2;
        }
        due
    }
}

/// State of a wait of this rank for messages of other ranks.
#[derive(Debug)]
pub(crate) struct Waiting {
    backoff: Backoff,
    /// Start of the wait, on a clock that runs only while this rank polls.
    start: Duration,
    /// Time of the last message from an awaited rank, on a clock that runs only while this rank polls.
    last: Duration,
    /// Time of the next check that the processes of other ranks are alive, on the rank's ordinary clock.
    next_check: Duration,
    reminder: Reminder,
}

impl Waiting {
    pub(crate) fn new(endpoint: &mut Endpoint) -> Self {
        let began = endpoint.clock().now();
        let start = endpoint.record_poll(began);
        let backoff = endpoint.backoff();
        Waiting {
            backoff,
            start,
            last: start,
            next_check: began + HEARTBEAT_PERIOD,
            reminder: Reminder::new(),
        }
    }

    /// Restarts the time limit of the wait and shortens the next sleep, because a message has arrived from a rank that this rank waits for.
    pub(crate) fn record_message(&mut self, endpoint: &mut Endpoint) {
        let now = endpoint.clock().now();
        self.last = endpoint.record_poll(now);
        self.backoff.reset();
    }

    /// Waits until a message may have arrived, for a time that increases with each call. It is an error if no awaited rank has sent a message for
    /// `limit`; `what` describes what the rank waits for, in words that follow "waited 3 s". Returns true if it is time to send heartbeats to ranks
    /// that wait for this one: every second, in real time.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] beyond the limit, and if the process of a needed rank is observed to have ended.
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
            let here = endpoint.record_poll(now);
            let silent = here.saturating_sub(self.last);
            if silent > limit {
                let text = format!("waited {:.0} s {}", silent.as_secs_f64(), what());
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(endpoint.rank()));
            }
            is_due = now >= self.next_check;
            if is_due {
                self.next_check = now + HEARTBEAT_PERIOD;
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

/// Longest time that a rank may be silent while another rank waits for its messages. If it is silent for longer, it counts as dead.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Longest silence until the first heartbeat of the awaited rank, which may still be in the program's own code.
    pub(crate) join: Duration,
    /// Longest silence after the first heartbeat of the awaited rank: that rank is waiting as well, and sends a heartbeat every second.
    pub(crate) peer: Duration,
}

/// Rank whose messages this rank waits for, with the time limits of the wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waits<'w> {
    pub(crate) rank: usize,
    pub(crate) limits: Limits,
    /// Ranks that may be waiting for this rank, and to which it sends heartbeats during its own wait.
    pub(crate) heartbeats_to: &'w [usize],
}

impl Endpoint {
    /// Waits for a message whose sender and tag are `wanted`; other messages stay in their queue. `what` describes what the rank waits for,
    /// in words that follow "waited 3 s".
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] if the awaited rank is silent for too long, or if the process of a needed rank is observed to have ended.
    pub(crate) fn await_from(
        &mut self,
        waits: &Waits<'_>,
        wanted: impl Fn(usize, u8) -> bool,
        what: impl Fn() -> String,
    ) -> Result<Message> {
        let is_heartbeat = |from: usize, tag: u8| from == waits.rank && tag == Control::Heartbeat.byte();
        let mut limit = waits.limits.join;
        let mut patience: Option<Waiting> = None;
        loop {
            let message = self.poll_for(|from, tag| wanted(from, tag) || is_heartbeat(from, tag))?;
            match message {
                Some(message) if is_heartbeat(message.from, message.code) => {
                    limit = waits.limits.peer;
                    patience.iter_mut().for_each(|patience| patience.record_message(self));
                }
                Some(message) => return Ok(message),
                None => {
                    let patience = patience.get_or_insert_with(|| Waiting::new(self));
                    if patience.wait(self, limit, &what)? {
                        waits.heartbeats_to.iter().try_for_each(|&rank| self.send_heartbeat(rank))?;
                    }
                }
            }
        }
    }

    /// Passes received messages to `step` until it returns a value. `waiting_for` describes what the rank waits for; it is called when the
    /// awaited ranks have been silent for too long.
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
                    patience.record_message(self);
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
    fn reminders_become_rarer_during_a_long_wait() {
        let mut reminder = Reminder::new();
        let reminders = (0..200).filter(|&second| reminder.is_due(Duration::from_secs(second)));
        assert_eq!(reminders.collect::<Vec<_>>(), [10, 20, 40, 80, 160]);
    }
}

//! Waits of a rank until its sent messages have been received. The rank does not wait for messages to ranks that were taken for dead, unless
//! they are known to be still present.

use std::time::Duration;

use super::Endpoint;
use crate::comm::message::{is_failure, run_of};
use crate::comm::{HEARTBEAT_PERIOD, Reminder};
use crate::error::{Error, ErrorKind, Result};

/// Reaction to failures of other ranks while this rank waits until its messages have been received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// The failure of another rank ends the wait with an error, because the job needs all ranks.
    Needed,
    /// The failure message of another rank is stored for later, and this rank continues to wait for the receipt of its own messages.
    Ignored,
}

impl Endpoint {
    /// Waits until all ranks that are still present have received the messages of this rank.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] at the limit; errors of the transport.
    pub(crate) fn drain(&mut self, limit: Duration) -> Result<()> {
        self.drain_with(limit, Duration::ZERO, Others::Ignored)
    }

    /// Waits until all ranks that are still present have received the messages of this rank, and checks that the needed ranks are alive.
    ///
    /// If the launcher ends the job at the death of any rank, a rank that was taken for dead while the job is still running was only silent. It may
    /// resume and receive its messages, so this rank waits for it, at most for `patience`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] at the limit, and if a needed rank is [observed](Endpoint::check_alive) to have died; [`ErrorKind::Peer`] if another
    /// rank has failed; errors of the transport.
    pub(crate) fn deliver(&mut self, limit: Duration, patience: Duration) -> Result<()> {
        let may_return = self.is_process() && !self.capabilities().ranks_may_end;
        let patience = if may_return { patience } else { Duration::ZERO };
        self.drain_with(limit, patience, Others::Needed)
    }

    fn drain_with(&mut self, limit: Duration, patience: Duration, others: Others) -> Result<()> {
        let start = self.record_poll(self.clock.now());
        let mut check = start + HEARTBEAT_PERIOD;
        let (mut backoff, mut reminder) = (self.backoff(), Reminder::new());
        while !self.transport.sends_done()? {
            let polled = self.record_poll(self.clock.now());
            let waited = polled.saturating_sub(start);
            if waited >= patience && self.receivers().is_empty() {
                return Ok(());
            }
            if self.poll_quietly(others)? {
                backoff.reset();
            }
            let what = |endpoint: &Endpoint| {
                format!("for rank(s) {:?} to receive this rank's messages", endpoint.receivers())
            };
            if others == Others::Needed && polled >= check {
                check = polled + HEARTBEAT_PERIOD;
                self.check_alive(|| what(self))?;
            }
            if waited > limit {
                let text = format!("waited {:.0} s {}", waited.as_secs_f64(), what(self));
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(self.rank()));
            }
            if self.capabilities().real_time {
                if reminder.is_due(waited) {
                    log::warn!("has waited {:.0} s {}", waited.as_secs_f64(), what(self));
                }
                backoff.wait(&mut *self.transport, self.clock)?;
            }
        }
        Ok(())
    }

    /// Returns the ranks that have not received all messages of this rank, without those that were taken for dead and are not known to be still
    /// present.
    fn receivers(&self) -> Vec<usize> {
        let is_there =
            |rank: &usize| !self.is_lost(*rank) || (self.is_staying(*rank) && !self.has_ended(*rank));
        self.transport.receivers().into_iter().filter(is_there).collect()
    }

    /// Receives a frame, and keeps it if it belongs to the current or a later run. A rank therefore loses no messages while it waits until its own
    /// have been received. Returns true if a frame has arrived.
    ///
    /// # Errors
    /// The failure of another rank, if the other ranks are needed.
    fn poll_quietly(&mut self, others: Others) -> Result<bool> {
        let Some(arrival) = self.arrival()? else { return Ok(false) };
        let is_failure = is_failure(&arrival.frame)?;
        if is_failure && others == Others::Needed {
            self.admit(arrival)?;
        } else if is_failure || run_of(&arrival.frame)? >= self.run {
            self.early.push_back(arrival);
        }
        Ok(true)
    }
}

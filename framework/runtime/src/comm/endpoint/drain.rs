//! Waiting until what was sent has been received. Nobody waits for a lost rank: what was sent to it never leaves.

use std::time::Duration;

use super::{Endpoint, is_failure};
use crate::comm::message::run_of;
use crate::comm::{HEARTBEAT_PERIOD, Reminder};
use crate::error::{Error, ErrorKind, Result};

/// Failures of other ranks while a rank waits for its messages to be received.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Others {
    /// The rank ends with them.
    Needed,
    /// They are kept for later.
    Ignored,
}

impl Endpoint {
    /// Waits until all ranks that are there have received what this one sent.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] at the limit; whatever the transport reports.
    pub(crate) fn drain(&mut self, limit: Duration) -> Result<()> {
        self.drain_with(limit, Duration::ZERO, Others::Ignored)
    }

    /// Waits until all ranks that are there have received what this one sent, as long as those that the job needs live.
    ///
    /// A launcher that ends the job at a death has not ended it for a lost rank, which was only silent: such a rank may come
    /// back to receive its messages, and is waited for until `patience` is over.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] at the limit, and when a needed rank is [seen](Endpoint::check_alive) to have died;
    /// [`ErrorKind::Peer`] when another rank has failed; whatever the transport reports.
    pub(crate) fn deliver(&mut self, limit: Duration, patience: Duration) -> Result<()> {
        let may_return = self.is_process() && !self.capabilities().ranks_may_end;
        let patience = if may_return { patience } else { Duration::ZERO };
        self.drain_with(limit, patience, Others::Needed)
    }

    fn drain_with(&mut self, limit: Duration, patience: Duration, others: Others) -> Result<()> {
        let start = self.look(self.clock.now());
        let mut check = start + HEARTBEAT_PERIOD;
        let (mut backoff, mut reminder) = (self.backoff(), Reminder::new());
        while !self.transport.sends_done()? {
            let here = self.look(self.clock.now());
            let waited = here.saturating_sub(start);
            if waited >= patience && self.receivers().is_empty() {
                return Ok(());
            }
            if self.poll_quietly(others)? {
                backoff.reset();
            }
            let what = |endpoint: &Endpoint| {
                format!("for rank(s) {:?} to receive this rank's messages", endpoint.receivers())
            };
            if others == Others::Needed && here >= check {
                check = here + HEARTBEAT_PERIOD;
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

    /// Ranks that are there, as far as is known, and have not received everything that this one sent.
    fn receivers(&self) -> Vec<usize> {
        let is_there =
            |rank: &usize| !self.is_lost(*rank) || (self.is_staying(*rank) && !self.has_ended(*rank));
        self.transport.receivers().into_iter().filter(is_there).collect()
    }

    /// Receives and keeps what belongs to the present or a later run, so that a drain cannot lose it. Returns true if a
    /// message has come.
    ///
    /// # Errors
    /// The failure of another rank, where the others are needed.
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

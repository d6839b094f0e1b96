//! Waiting until what was sent has left.

use std::time::Duration;

use super::Endpoint;
use crate::comm::HEARTBEAT_PERIOD;
use crate::comm::message::run_of;
use crate::error::{Error, ErrorKind, Result};

impl Endpoint {
    /// Waits until everything that was sent has left.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`] at the limit; whatever the transport reports.
    pub(crate) fn drain(&mut self, limit: Duration) -> Result<()> {
        self.drain_with(limit, |_| Ok(()))
    }

    /// The same, as long as all others must be there to receive it.
    ///
    /// # Errors
    /// The same, and [`ErrorKind::Timeout`] when a rank is [seen](Endpoint::check_alive) to have died.
    pub(crate) fn deliver(&mut self, limit: Duration) -> Result<()> {
        self.drain_with(limit, |endpoint| {
            endpoint.check_alive(|| "for its own messages to be received".to_string())
        })
    }

    fn drain_with(&mut self, limit: Duration, look: impl Fn(&Endpoint) -> Result<()>) -> Result<()> {
        let start = self.look(self.clock.now());
        let mut check = start + HEARTBEAT_PERIOD;
        let mut backoff = self.backoff();
        while !self.transport.sends_done()? {
            if self.poll_quietly()? {
                backoff.reset();
            }
            let here = self.look(self.clock.now());
            if here >= check {
                check = here + HEARTBEAT_PERIOD;
                look(self)?;
            }
            let waited = here.saturating_sub(start);
            if waited > limit {
                let text =
                    format!("waited {:.0} s for its own messages to be received", waited.as_secs_f64());
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(self.rank()));
            }
            if self.capabilities().real_time {
                backoff.wait(&mut *self.transport, self.clock)?;
            }
        }
        Ok(())
    }

    /// Receives and keeps what belongs to the present or a later run, so that a drain cannot lose it.
    fn poll_quietly(&mut self) -> Result<bool> {
        match self.arrival()? {
            None => Ok(false),
            Some(arrival) => {
                if run_of(&arrival.frame)? >= self.run {
                    self.early.push_back(arrival);
                }
                Ok(true)
            }
        }
    }
}

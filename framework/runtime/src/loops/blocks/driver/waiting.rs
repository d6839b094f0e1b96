//! What a rank does while it cannot go on, or must not.

use std::time::Duration;

use super::Driver;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::blocks::machine::Machine;
use crate::session::Backoff;

/// A rank that cannot go on before something comes.
pub(super) struct Wait {
    /// For rows that are on their way: that is part of a movement. All else is waiting for others.
    pub(super) is_transfer: bool,
    backoff: Backoff,
    since: Duration,
    /// When something came last, as the post counts silence.
    last: Duration,
}

impl Driver<'_> {
    /// Takes up a message, or waits a little if none has come, for `what`.
    #[inline]
    pub(super) fn wait<M: Machine>(
        &mut self,
        machine: &mut M,
        is_transfer: bool,
        what: impl Fn(&M) -> String,
    ) -> Result<()> {
        if let Some(letter) = self.post.poll()? {
            if let Some(wait) = &mut self.wait {
                wait.backoff.reset();
                wait.last = self.post.look(self.clock.now());
            }
            return self.take(machine, letter);
        }
        self.end_stretch();
        let now = self.clock.now();
        let post = &mut *self.post;
        let here = post.look(now);
        let wait = self.wait.get_or_insert_with(|| Wait {
            is_transfer,
            backoff: post.backoff(),
            since: now,
            last: here,
        });
        let silent = here.saturating_sub(wait.last);
        let limit = if self.is_joined { self.peer_limit } else { self.join_limit };
        if silent > limit && !self.clock.is_simulated() {
            let text = format!("waited {:.0} s {}", silent.as_secs_f64(), what(machine));
            return Err(Error::new(ErrorKind::Timeout, text).at_rank(self.place.rank));
        }
        wait.backoff.wait(post.transport(), self.clock)
    }

    /// Looks until the rows that rank `to` waits for, and all else that was sent, have left. MPI may pass a large message on
    /// only as far as both sides look, and a rank that computes looks once in a millisecond.
    pub(super) fn push_out<M: Machine>(&mut self, machine: &mut M, to: usize) -> Result<()> {
        // The simulator passes messages on by itself.
        if self.clock.is_simulated() {
            return Ok(());
        }
        self.end_stretch();
        self.end_wait();
        let since = self.clock.now();
        let mut backoff = self.post.backoff();
        let mut last = self.post.look(since);
        while !self.post.transport().sends_done()? {
            if let Some(letter) = self.post.poll()? {
                self.take(machine, letter)?;
                last = self.post.look(self.clock.now());
                continue;
            }
            let silent = self.post.look(self.clock.now()).saturating_sub(last);
            if silent > self.peer_limit {
                let text = format!("waited {:.0} s for rank {to} to take rows", silent.as_secs_f64());
                return Err(Error::new(ErrorKind::Timeout, text).at_rank(self.place.rank));
            }
            // Sleeps stay short.
            backoff.reset();
            backoff.wait(self.post.transport(), self.clock)?;
        }
        // While it makes its own part of a movement, that is where the time belongs.
        if self.moving.is_none() {
            self.meter.waited(self.clock.now().saturating_sub(since));
        }
        Ok(())
    }

    /// What the rank waited for has come.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        let Some(wait) = self.wait.take().filter(|wait| !wait.is_transfer) else { return };
        let took = self.clock.now().saturating_sub(wait.since);
        self.meter.waited(took);
        if let Some(moving) = &mut self.moving {
            moving.waited += took;
        }
    }
}

//! What a rank does while it cannot go on, or must not.

use super::GridRank;
use crate::comm::Waiting;
use crate::error::Result;
use crate::loops::grid::worker::Worker;

/// A rank that cannot go on before something comes.
pub(super) struct Wait {
    /// For rows that are on their way: that is part of a movement. All else is waiting for others.
    pub(super) is_transfer: bool,
    waiting: Waiting,
}

impl GridRank<'_> {
    /// Takes up a message, or waits a little if none has come, for `what`.
    #[inline]
    pub(super) fn wait<M: Worker>(
        &mut self,
        worker: &mut M,
        is_transfer: bool,
        what: impl Fn(&M) -> String,
    ) -> Result<()> {
        if let Some(message) = self.endpoint.poll()? {
            if let Some(wait) = &mut self.wait {
                wait.waiting.heard(self.endpoint);
            }
            return self.take(worker, message);
        }
        self.end_stretch();
        let endpoint = &mut *self.endpoint;
        let wait = self.wait.get_or_insert_with(|| Wait { is_transfer, waiting: Waiting::new(endpoint) });
        let limit = if self.is_joined { self.peer_limit } else { self.join_limit };
        wait.waiting.wait(endpoint, limit, || what(worker))
    }

    /// Looks until the rows that rank `to` waits for, and all else that was sent, have left. MPI may pass a large message on
    /// only as far as both sides look, and a rank that computes looks once in a millisecond.
    pub(super) fn push_out<M: Worker>(&mut self, worker: &mut M, to: usize) -> Result<()> {
        // The simulator passes messages on by itself.
        if self.clock.is_simulated() {
            return Ok(());
        }
        self.end_stretch();
        self.end_wait();
        let mut waiting = Waiting::new(self.endpoint);
        while !self.endpoint.transport().sends_done()? {
            if let Some(message) = self.endpoint.poll()? {
                self.take(worker, message)?;
                waiting.heard(self.endpoint);
                continue;
            }
            waiting.keep_awake();
            waiting.wait(self.endpoint, self.peer_limit, || format!("for rank {to} to take rows"))?;
        }
        // While it makes its own part of a movement, that is where the time belongs.
        if self.moving.is_none() {
            self.metrics.waited(self.clock.now().saturating_sub(waiting.began()));
        }
        Ok(())
    }

    /// What the rank waited for has come.
    #[inline]
    pub(super) fn end_wait(&mut self) {
        let Some(wait) = self.wait.take().filter(|wait| !wait.is_transfer) else { return };
        let took = self.clock.now().saturating_sub(wait.waiting.began());
        self.metrics.waited(took);
        if let Some(moving) = &mut self.moving {
            moving.waited += took;
        }
    }
}

//! End of a run on a rank.

use super::Running;
use crate::error::Result;
use crate::rank::protocol::{Moment, Next, Outgoing};
use crate::workflow::messages::Content;
use crate::workflow::user_code::Job;

impl Running<'_, '_> {
    /// On rank 0: ends the run on all ranks when all tasks have ended.
    pub(super) fn end_if_over(&mut self, at: &Moment, out: &mut Outgoing<'_>) -> Result<()> {
        let is_due = self.root.as_ref().is_some_and(|root| root.is_over() && !self.has_ended);
        if is_due && !self.has_all_output(out)? {
            return Ok(());
        }
        let Some(root) = self.root.as_mut().filter(|root| root.is_over() && !self.has_ended) else {
            return Ok(());
        };
        self.has_ended = true;
        root.ended = Some(at.now());
        self.events.record(at.now(), || root.end_event(at.now()));
        if root.master.is_cut() {
            out.endpoint().stop_run(&root.kept())?;
        }
        for rank in 1..out.ranks() {
            // A lost rank whose process may live gets the message as well.
            if !root.master.is_lost(rank) || !out.endpoint().has_ended(rank) {
                out.send(rank, Content::End.encode(out.run())?)?;
            }
        }
        root.finals[0] = Some(self.worker.totals);
        Ok(())
    }

    /// Returns the next step of the driver when there is nothing to run: wait, or finish after the end of the run.
    pub(super) fn wait(&mut self, out: &mut Outgoing<'_>) -> Result<Next<Job>> {
        if !self.has_ended {
            return Ok(Next::Wait);
        }
        match &self.root {
            Some(root) => self.is_over = root.have_all_left(),
            None if !self.is_over => {
                self.is_over = true;
                out.send(0, Content::Final(self.worker.totals).encode(out.run())?)?;
            }
            None => {}
        }
        Ok(if self.is_over { Next::Finished } else { Next::Wait })
    }
}

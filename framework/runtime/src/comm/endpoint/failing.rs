//! Messages of a job that has failed.

use std::collections::BTreeSet;

use super::{Endpoint, is_failure};
use crate::comm::message::{Control, FRAME_HEADER, TAG_AT};
use crate::error::Result;
use crate::wire;

impl Endpoint {
    /// Receives messages until rank 0 dismisses this rank from a failed job; all other messages are dropped. Returns the dead ranks, or
    /// `None` if no dismissal has arrived yet.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn dismissal(&mut self) -> Result<Option<Vec<usize>>> {
        self.early.clear();
        while let Some(arrival) = self.arrival()? {
            let head = &arrival.frame.head;
            if !is_failure(&arrival.frame)? && head[TAG_AT] == Control::Dismiss as u8 {
                return wire::from_bytes(&head[FRAME_HEADER..]).map(Some);
            }
        }
        Ok(None)
    }

    /// Returns true if all ranks that are alive have received the messages of this rank.
    ///
    /// # Errors
    /// The errors of the transport.
    pub(crate) fn all_received(&mut self) -> Result<bool> {
        let is_done = self.transport.sends_done()?;
        Ok(is_done || self.transport.receivers().into_iter().all(|rank| self.is_gone(rank)))
    }

    /// Returns the ranks that have died, and the living ranks other than this one that have not [answered](Control::Answer) a failure.
    pub(crate) fn unanswered(&self) -> (Vec<usize>, BTreeSet<usize>) {
        let others = (0..self.size()).filter(|&rank| rank != self.rank());
        let (dead, alive): (Vec<usize>, Vec<usize>) = others.partition(|&rank| self.is_gone(rank));
        (dead, alive.into_iter().filter(|rank| !self.answered.contains(rank)).collect())
    }

    fn is_gone(&self, rank: usize) -> bool {
        self.has_ended(rank) || (self.is_lost(rank) && !self.is_staying(rank))
    }
}

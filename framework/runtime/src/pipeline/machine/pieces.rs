//! Pieces that an expanding stage on this rank makes of a batch.
//!
//! The first piece of a batch is sent when it is made. For every other piece the rank requests room from rank 0, whose window limits the batches in
//! flight (`grants.rs`). The more pieces the rank has made of a batch, the more it requests at a time.

use super::batch::Batch;
use super::expansions::Open;
use super::sequence_number::SequenceNumber;
use super::{Job, Machine};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{AskForRoom, GiveBack, Grant};

/// Maximum number of pieces in one request for room: enough to continue while the answer is in transit.
const MOST_ASKED: u64 = 16;

impl Machine {
    /// Returns the job for the next piece, if there is room for it.
    pub(super) fn next_piece(&mut self) -> Option<Job> {
        let batch = self.expansions.next_batch()?;
        Some(Job::Process { stages: batch.stage..batch.stage + 1, batch, fill: self.expansions.fill })
    }

    /// Handles the output of stages for a batch. If it is a piece and more pieces follow, requests room for them.
    pub(super) fn on_piece(&mut self, batch: &Batch) -> Result<()> {
        let Some(stage) = batch.stage.checked_sub(1).filter(|&stage| self.expansions.is_expanding(stage))
        else {
            return Ok(());
        };
        let (Some((whole, at)), Some(piece)) = (batch.number.whole(), batch.pieces.last()) else {
            let text = format!("batch {} has been made by an expanding stage and is no piece", batch.number);
            return Err(Error::new(ErrorKind::Wire, text));
        };
        if piece.is_last {
            let unused = self.expansions.open.remove(&whole).map_or(0, |open| open.granted);
            if self.expansions.busy.remove(&stage) {
                // The stage may belong to another rank by now.
                self.leave();
            }
            return self.give_back(&whole, unused);
        }
        let made = at + 1;
        let open = self.expansions.open.entry(whole.clone()).or_insert_with(|| Open {
            batch: batch.kept(whole, made),
            made: 0,
            granted: 0,
            asked: 0,
            is_in_work: true,
        });
        (open.made, open.is_in_work) = (made, false);
        let wanted = made.min(MOST_ASKED).saturating_sub(open.granted + open.asked);
        // While granted room is left, a request waits until it asks for at least half of the maximum.
        if open.asked > 0 || (open.granted > 0 && wanted * 2 < MOST_ASKED) || wanted == 0 {
            return Ok(());
        }
        let first = open.batch.number.piece(made + open.granted);
        open.asked += wanted;
        let ask = AskForRoom { epoch: self.epoch(), first, pieces: wanted };
        if self.me == 0 { self.on_ask_for_room(0, ask) } else { self.post(0, &ask) }
    }

    /// Handles a grant of room for further pieces.
    pub(super) fn on_grant(&mut self, grant: &Grant) -> Result<()> {
        self.expansions.fill.items = (grant.items as usize).max(1);
        match self.expansions.open.get_mut(&grant.whole) {
            Some(open) => {
                open.asked = open.asked.saturating_sub(grant.pieces);
                open.granted += grant.pieces;
                Ok(())
            }
            // The last piece was made while the grant was in transit.
            None => self.give_back(&grant.whole, grant.pieces),
        }
    }

    fn give_back(&mut self, whole: &SequenceNumber, pieces: u64) -> Result<()> {
        if pieces == 0 {
            return Ok(());
        }
        let give_back = GiveBack { epoch: self.epoch(), whole: whole.clone(), pieces };
        if self.me == 0 { self.on_give_back(&give_back) } else { self.post(0, &give_back) }
    }
}

//! An expanding stage here makes a batch into pieces.
//!
//! The first piece of a batch leaves when it is made. For any other the rank asks rank 0, whose window bounds what is in flight
//! (`grants.rs`), and asks for more at a time the more it has made.

use super::batch::Batch;
use super::expansions::Open;
use super::sequence_number::SequenceNumber;
use super::{Job, Machine};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{AskForRoom, GiveBack, Grant};

/// Pieces for which a rank asks at a time, at most: enough to go on while the answer is on its way.
const MOST_ASKED: u64 = 16;

impl Machine {
    /// The next piece to make, if there is room for it.
    pub(super) fn next_piece(&mut self) -> Option<Job> {
        let batch = self.expansions.next_batch()?;
        Some(Job::Process { stages: batch.stage..batch.stage + 1, batch, fill: self.expansions.fill })
    }

    /// Stages have made this of a batch. If it is a piece, and there are more to come, asks for room for them.
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
                // It may belong to another rank by now.
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
        // Half of them are enough to go on with.
        if open.asked > 0 || (open.granted > 0 && wanted * 2 < MOST_ASKED) || wanted == 0 {
            return Ok(());
        }
        let first = open.batch.number.piece(made + open.granted);
        open.asked += wanted;
        let ask = AskForRoom { epoch: self.epoch(), first, pieces: wanted };
        if self.me == 0 { self.on_ask_for_room(0, ask) } else { self.post(0, &ask) }
    }

    /// There is room for more pieces.
    pub(super) fn on_grant(&mut self, grant: &Grant) -> Result<()> {
        self.expansions.fill.items = (grant.items as usize).max(1);
        match self.expansions.open.get_mut(&grant.whole) {
            Some(open) => {
                open.asked = open.asked.saturating_sub(grant.pieces);
                open.granted += grant.pieces;
                Ok(())
            }
            // The last piece was made meanwhile.
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

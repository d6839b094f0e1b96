//! Pieces that an expanding stage on this rank makes of a batch.
//!
//! The first piece of a batch is sent when it is made. For every other piece the rank requests room from rank 0, whose window limits the batches in
//! flight. The more pieces the rank has made of a batch, the more it requests at a time.

use super::batch::Batch;
use super::expansions::Open;
use super::sequence_number::SequenceNumber;
use super::{Job, Machine};
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{AskForRoom, GiveBack, Grant, StreamMessage};
use crate::rank::protocol::Outgoing;

/// Maximum number of pieces in one request for room: enough to continue while the answer is in transit.
const MOST_ASKED: u64 = 16;

impl Machine {
    /// Returns the job for the next piece, if there is room for it.
    pub(super) fn next_piece(&mut self) -> Option<Job> {
        let batch = self.expansions.next_batch()?;
        Some(Job::Process { stages: batch.stage..batch.stage + 1, batch, fill: self.expansions.fill })
    }

    /// Handles a piece that the expanding stage `stage` has made of a batch. If more pieces follow, requests room for them.
    pub(super) fn on_piece(&mut self, stage: usize, batch: &Batch, out: &mut Outgoing<'_>) -> Result<()> {
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
            return self.give_back(&whole, unused, out);
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
        if self.me == 0 {
            return self.on_ask_for_room(0, ask, out);
        }
        out.send(0, StreamMessage::AskForRoom(ask))
    }

    /// Handles a grant of room for further pieces.
    pub(super) fn on_grant(&mut self, grant: &Grant, out: &mut Outgoing<'_>) -> Result<()> {
        self.expansions.fill.items = (grant.items as usize).max(1);
        match self.expansions.open.get_mut(&grant.whole) {
            Some(open) => {
                open.asked = open.asked.saturating_sub(grant.pieces);
                open.granted += grant.pieces;
                Ok(())
            }
            // The last piece was made while the grant was in transit.
            None => self.give_back(&grant.whole, grant.pieces, out),
        }
    }

    fn give_back(&mut self, whole: &SequenceNumber, pieces: u64, out: &mut Outgoing<'_>) -> Result<()> {
        if pieces == 0 {
            return Ok(());
        }
        let give_back = GiveBack { epoch: self.epoch(), whole: whole.clone(), pieces };
        if self.me == 0 {
            return self.on_give_back(&give_back, out);
        }
        out.send(0, StreamMessage::GiveBack(give_back))
    }

    /// Handles a request for room from an expanding stage on rank `from`.
    pub(super) fn on_ask_for_room(
        &mut self,
        from: usize,
        ask: AskForRoom,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let (me, levels) = (self.me, self.levels_at_sink());
        let Some(source) = &mut self.source else {
            return Err(Error::new(ErrorKind::Wire, format!("asks rank {me} for room, which draws nothing")));
        };
        let level = ask.first.pieces.len();
        if level == 0 || level > levels {
            let text = format!("asks for room for batch {}, but {levels} stage(s) expand", ask.first);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        source.ask(from, ask.first, ask.pieces);
        self.grant(out)
    }

    /// Handles the return of granted room that is not needed.
    pub(super) fn on_give_back(&mut self, back: &GiveBack, out: &mut Outgoing<'_>) -> Result<()> {
        let levels = self.levels_at_sink();
        let Some(source) = &mut self.source else {
            return Err(Error::new(ErrorKind::Wire, "gives room back to a rank that draws nothing"));
        };
        if back.whole.pieces.len() >= levels {
            let text = format!("gives room back of batch {}, but {levels} stage(s) expand", back.whole);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        source.window.given_back(back.whole.pieces.len() + 1, back.pieces);
        self.grant(out)
    }

    /// Grants requests for room, oldest first, as far as the window allows. The piece that the sink waits for is always granted.
    pub(super) fn grant(&mut self, out: &mut Outgoing<'_>) -> Result<()> {
        let sink = self.table.stage_count();
        loop {
            let Some(source) = &mut self.source else { return Ok(()) };
            let awaited = self.resequencer.awaited(sink..sink + 1);
            let Some((to, whole, pieces)) = source.next_grant(awaited) else { return Ok(()) };
            let items = source.window.piece_items() as u32;
            let grant = Grant { epoch: self.epoch(), whole, pieces, items };
            match to == self.me {
                true => self.on_grant(&grant, out)?,
                false => out.send(to, StreamMessage::Grant(grant))?,
            }
        }
    }

    fn levels_at_sink(&self) -> usize {
        self.expansions.levels(self.table.stage_count())
    }
}

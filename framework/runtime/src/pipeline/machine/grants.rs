//! Grants of room in the window, which rank 0 sends to expanding stages on all ranks.

use super::Machine;
use crate::error::{Error, ErrorKind, Result};
use crate::pipeline::messages::{AskForRoom, GiveBack, Grant};

impl Machine {
    /// Handles a request for room from an expanding stage on rank `from`.
    pub(super) fn on_ask_for_room(&mut self, from: usize, ask: AskForRoom) -> Result<()> {
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
        self.grant()
    }

    /// Handles the return of granted room that is not needed.
    pub(super) fn on_give_back(&mut self, back: &GiveBack) -> Result<()> {
        let levels = self.levels_at_sink();
        let Some(source) = &mut self.source else {
            return Err(Error::new(ErrorKind::Wire, "gives room back to a rank that draws nothing"));
        };
        if back.whole.pieces.len() >= levels {
            let text = format!("gives room back of batch {}, but {levels} stage(s) expand", back.whole);
            return Err(Error::new(ErrorKind::Wire, text));
        }
        source.give_back(back.whole.pieces.len() + 1, back.pieces);
        self.grant()
    }

    /// Grants requests for room, oldest first, as far as the window allows. The piece that the sink waits for is always granted.
    pub(super) fn grant(&mut self) -> Result<()> {
        let sink = self.table.stage_count();
        loop {
            let Some(source) = &mut self.source else { return Ok(()) };
            let awaited = self.resequencer.awaited(sink..sink + 1);
            let Some((to, whole, pieces)) = source.next_grant(awaited) else { return Ok(()) };
            let items = source.piece_items() as u32;
            let grant = Grant { epoch: self.epoch(), whole, pieces, items };
            if to == self.me { self.on_grant(&grant)? } else { self.post(to, &grant)? }
        }
    }

    fn levels_at_sink(&self) -> usize {
        self.expansions.levels(self.table.stage_count())
    }
}

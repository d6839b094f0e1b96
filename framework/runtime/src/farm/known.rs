//! Results that rank 0 knows from the journal.

use armature_planner::farm::Supply as Left;

use super::desk::Desk;
use super::outcome::{Answer, FailedTask};
use super::store::Store;
use super::supply::Supply;
use crate::error::{Error, ErrorKind, Result};
use crate::wire::Item;

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// Opens the journal, if the farm has one.
    pub(crate) fn open_journal(&mut self) -> Result<()> {
        if let Some((path, fingerprint)) = &self.options.journal {
            let store = Store::open(path, &self.name, fingerprint, self.clock);
            self.store = Some(store.map_err(|e| e.in_stage(&self.name).at_rank(0))?);
        }
        Ok(())
    }

    /// # Errors
    /// If the farm has a journal: iterations number their tasks from 0 each.
    pub(crate) fn refuse_journal(&self) -> Result<()> {
        if self.options.journal.is_none() {
            return Ok(());
        }
        let text =
            "a farm with a journal was asked to iterate; a journal keeps the results of `map` and `collect`";
        Err(Error::new(ErrorKind::Config, text).in_stage(&self.name).at_rank(0))
    }

    /// Feeds results that are known from the journal, as far as the next task that has none.
    pub(super) fn skip_known<T: Iterator<Item = I>>(
        &mut self,
        supply: &mut Supply<T>,
        sink: &mut impl FnMut(u64, Result<O, FailedTask>) -> Answer,
    ) -> Result<()> {
        let before = supply.drawn();
        while !self.stopped
            && let Some(store) = &mut self.store
            && store.next_known(supply.drawn()) == Some(supply.drawn())
        {
            let task = supply.drawn();
            if supply.draw(1).map_err(|e| e.in_stage(&self.name))?.is_empty() {
                break;
            }
            let codec = self.codecs.results;
            let known = store.take(task, &codec).map_err(|e| e.in_stage(&self.name).at_rank(0))?;
            self.known += 1;
            self.master.ended(1, 0);
            self.feed_known(task, known, sink)?;
        }
        if supply.drawn() > before
            && let (left, true) = supply.left()
        {
            self.chunker.set_supply(Left::Exactly(left + self.master.waiting()), &self.knowledge);
        }
        Ok(())
    }
}

//! Results that rank 0 knows from the journal.

use armature_planner::farm::Supply as Left;

use super::desk::Desk;
use super::order::Run;
use super::outcome::{Answer, FailedTask};
use super::store::{Kind, Store};
use super::supply::Supply;
use crate::error::{Error, ErrorKind, Result};
use crate::wire::Item;

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> Desk<'_, 'scope, '_, 'w, 'f, I, O> {
    /// Opens the journal, if the farm has one.
    ///
    /// # Errors
    /// If it cannot be opened or is not this farm's, or if the farm has been run before: its results would be taken for
    /// those of this run.
    pub(crate) fn open_journal(&mut self, kind: Kind) -> Result<()> {
        let Some((path, fingerprint)) = &self.options.journal else { return Ok(()) };
        let store = if self.options.ran_before {
            let path = path.display();
            let text = format!("a farm with a journal is run once, and {path} is that of an earlier run");
            Err(Error::new(ErrorKind::Config, text))
        } else {
            Store::open(path, &self.name, kind, fingerprint, self.clock)
        };
        self.store = Some(store.map_err(|e| e.in_farm(&self.name).at_rank(0))?);
        Ok(())
    }

    /// Begins a set of tasks of an iteration: they must be those of the journal, if that goes so far.
    pub(crate) fn begin_set(&mut self, iteration: usize, tasks: Vec<I>) -> Result<Vec<I>> {
        match &mut self.store {
            Some(store) => store
                .begin_set(iteration, tasks, &self.codecs.tasks)
                .map_err(|e| e.in_farm(&self.name).at_rank(0)),
            None => Ok(tasks),
        }
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
            if supply.draw(1).map_err(|e| e.in_farm(&self.name))?.is_empty() {
                break;
            }
            let codec = self.codecs.results;
            let known = store.take(task, &codec).map_err(|e| e.in_farm(&self.name).at_rank(0))?;
            let Some(known) = known else { break };
            self.known += 1;
            self.master.ended(1, u64::from(known.is_err()));
            let run = known.map_or_else(Run::Failed, |result| Run::Results(vec![result]));
            self.pass_on(task, run, sink)?;
        }
        if supply.drawn() > before
            && let (left, true) = supply.left()
        {
            self.chunker.set_supply(Left::Exactly(left + self.master.waiting()), &self.knowledge);
        }
        Ok(())
    }
}

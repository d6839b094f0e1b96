//! Results that rank 0 knows from the journal.

use std::ops::Range;

use armature_planner::farm::Supply as Left;

use super::desk::Desk;
use super::machine::Suspicion;
use super::notes::Tried;
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
        let store = store.map_err(|e| e.in_farm(&self.name).at_rank(0))?;
        self.master.count_deaths_from(store.deaths());
        self.store = Some(store);
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
            && self.is_known(supply.drawn())
            && (self.order.is_due(supply.drawn()) || self.budget.room(self.flying()) > 0)
            && let Some(store) = &mut self.store
        {
            let task = supply.drawn();
            if supply.draw(1, (u64::MAX, 1), |_| 0).map_err(|e| e.in_farm(&self.name))?.is_empty() {
                break;
            }
            let codec = self.codecs.results;
            let known = store.take(task, &codec).map_err(|e| e.in_farm(&self.name).at_rank(0))?;
            let Some(known) = known else { break };
            self.known += 1;
            self.master.ended(1, u64::from(known.is_err()));
            let run = known.map_or_else(Run::Failed, |result| Run::Results(vec![result]));
            let bytes = run.weigh();
            self.pass_on(task, (run, bytes), sink)?;
        }
        if supply.drawn() > before
            && let (left, true) = supply.left()
        {
            self.chunker.set_supply(Left::Exactly(left + self.master.waiting()), &self.knowledge);
        }
        Ok(())
    }

    fn is_known(&self, task: u64) -> bool {
        self.store.as_ref().and_then(|store| store.next_known(task)) == Some(task)
    }

    /// Keeps what is known of tasks that a rank has died over, if there is a journal.
    pub(super) fn keep_suspicion(
        &mut self,
        tasks: Range<u64>,
        attempt: u32,
        suspicion: Suspicion,
    ) -> Result<()> {
        let noted = self.store.as_mut().map_or(Ok(()), |store| store.note(tasks, attempt, suspicion));
        noted.map_err(|e| e.in_farm(&self.name).at_rank(0))
    }

    /// The run has come to its end. Tasks of a stream that have failed are tried anew when it is run again, also those that
    /// ranks have died of.
    pub(super) fn forget_deaths(&mut self) -> Result<()> {
        let kept = self.store.as_ref().is_some_and(|store| store.keeps_failures());
        for task in std::mem::take(&mut self.died_of).into_iter().filter(|_| !kept) {
            self.keep_suspicion(task..task + 1, 0, Suspicion::default())?;
        }
        Ok(())
    }

    /// Up to which task new ones are drawn next, and what an earlier run of the job has noted of them: attempts and
    /// suspicion. Tasks with known results are skipped before more are drawn.
    pub(super) fn next_stretch(&self, first: u64) -> (u64, Tried) {
        let Some(store) = &self.store else { return (u64::MAX, Default::default()) };
        let known = store.next_known(first).unwrap_or(u64::MAX);
        let (end, noted) = store.noted(first).unwrap_or((u64::MAX, None));
        (known.min(end), noted.unwrap_or_default())
    }
}

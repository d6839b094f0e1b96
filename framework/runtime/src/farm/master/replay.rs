//! Replay on rank 0: results in the journal of an earlier run are delivered without being computed again.

use std::ops::Range;

use super::super::delivery::Deliver;
use super::super::resequencer::ResultRun;
use super::super::result_journal::{Kind, ResultJournal};
use super::super::task_source::{Source, Wanted};
use super::MasterRank;
use crate::error::Result;
use crate::tasks::Attempts;
use crate::wire::erased::Items;

impl MasterRank {
    /// Opens the journal, if the farm has one.
    ///
    /// # Errors
    /// If the journal cannot be opened or belongs to another farm.
    pub(in super::super) fn open_journal(&mut self, kind: Kind) -> Result<()> {
        let Some((path, identity)) = &self.options.journal else { return Ok(()) };
        let journal = identity
            .bytes()
            .and_then(|identity| ResultJournal::open(path, &self.name, kind, identity, self.clock));
        let journal = journal.map_err(|e| e.in_farm(&self.name).at_rank(0))?;
        self.state.tasks.count_deaths_from(journal.deaths());
        self.journal = Some(journal);
        Ok(())
    }

    /// Begins an iteration's set of tasks. If the journal contains the iteration, its tasks must be the same as those in the journal.
    pub(in super::super) fn begin_set(&mut self, iteration: usize, tasks: Items) -> Result<Items> {
        match &mut self.journal {
            Some(journal) => journal
                .begin_set(iteration, tasks, &*self.codecs.tasks)
                .map_err(|e| e.in_farm(&self.name).at_rank(0)),
            None => Ok(tasks),
        }
    }

    /// Delivers results from the journal until too many of them wait for the sink. In an exploration (tasks that create tasks) the
    /// remaining tasks follow from these results, so no task is dispatched before the replay is complete.
    fn replay_exploration(&mut self, source: &mut dyn Source, delivery: &mut dyn Deliver) -> Result<()> {
        while !self.state.stopped
            && self.state.may_replay(0)
            && let Some(journal) = &mut self.journal
        {
            let known =
                journal.take_next(&*self.codecs.results).map_err(|e| e.in_farm(&self.name).at_rank(0))?;
            let Some(known) = known else { break };
            self.state.known += 1;
            self.state.tasks.ended(1, 0);
            let run = ResultRun::Results(known);
            let bytes = run.weigh();
            self.deliver(0, (run, bytes), delivery)?;
        }
        // The sink turns results from the journal into the list of the remaining tasks, so no task is dispatched before it has
        // received all of them.
        let is_idle = self.state.undelivered.0 == 0;
        source.hold(self.journal.as_mut().is_some_and(|journal| !journal.ends_replay(is_idle)));
        Ok(())
    }

    pub(super) fn replay(&mut self, source: &mut dyn Source, delivery: &mut dyn Deliver) -> Result<()> {
        if self.journal.as_ref().is_some_and(ResultJournal::is_replaying) {
            self.replay_exploration(source, delivery)?;
        }
        let had_ended = source.has_ended();
        while !self.state.stopped
            && self.is_known(source.taken())
            && self.state.may_replay(source.taken())
            && let Some(journal) = &mut self.journal
        {
            let task = source.taken();
            if source.draw(Wanted { most: 1, bytes: u64::MAX, step: 1 })?.is_none() {
                break;
            }
            let known =
                journal.take(task, &*self.codecs.results).map_err(|e| e.in_farm(&self.name).at_rank(0))?;
            let Some(known) = known else { break };
            self.state.known += 1;
            self.state.tasks.ended(1, u64::from(known.is_err()));
            let run = known.map_or_else(ResultRun::Failed, ResultRun::Results);
            let bytes = run.weigh();
            self.deliver(task, (run, bytes), delivery)?;
        }
        if source.has_ended() && !had_ended {
            self.state.set_remaining(source.left());
        }
        Ok(())
    }

    fn is_known(&self, task: u64) -> bool {
        self.journal.as_ref().and_then(|journal| journal.next_known(task)) == Some(task)
    }

    pub(super) fn record_attempts(&mut self, tasks: Range<u64>, attempts: Attempts) -> Result<()> {
        let recorded =
            self.journal.as_mut().map_or(Ok(()), |journal| journal.record_attempts(tasks, attempts));
        recorded.map_err(|e| e.in_farm(&self.name).at_rank(0))
    }

    /// Clears, at the end of a run, the suspicion that its failed tasks caused deaths. If the farm runs again with the journal of a stream, these
    /// tasks are tried again.
    pub(super) fn forget_deaths(&mut self) -> Result<()> {
        let kept = self.journal.as_ref().is_some_and(|journal| journal.keeps_failures());
        for task in std::mem::take(&mut self.state.died_of).into_iter().filter(|_| !kept) {
            self.record_attempts(task..task + 1, Attempts::default())?;
        }
        Ok(())
    }

    /// Returns the number of the task before which rank 0 has to stop drawing tasks, and the failed attempts that an earlier run of the job has
    /// recorded for the tasks from `first` to there. Rank 0 stops before a task whose result is in the journal, which is not dispatched, and before
    /// a task with other recorded attempts.
    ///
    /// A task that has used all its attempts has failed. If a failed task ends the run, the task gets [new attempts](Attempts::renewed), because the
    /// job was started again after the task had ended the earlier run.
    pub(super) fn next_stretch(&self, first: u64) -> (u64, Attempts) {
        let Some(journal) = &self.journal else { return (u64::MAX, Default::default()) };
        let known = journal.next_known(first).unwrap_or(u64::MAX);
        let (end, recorded) = journal.recorded(first).unwrap_or((u64::MAX, None));
        let attempts = recorded.unwrap_or_default();
        let is_renewed = self.options.fail_fast && attempts.is_exhausted(self.state.tasks.tries());
        let others = self.state.workers().size().saturating_sub(1);
        (known.min(end), if is_renewed { attempts.renewed(others) } else { attempts })
    }
}

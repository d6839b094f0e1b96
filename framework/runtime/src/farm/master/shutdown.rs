//! End of a farm's run on rank 0.

use std::time::Duration;

use super::super::messages::ToWorker;
use super::super::result_journal::ResultJournal;
use super::super::state::{TaskCounts, WorkerState};
use super::super::summary::Summary;
use super::super::task_source::Source;
use super::MasterRank;
use super::run::MasterRun;
use crate::comm::endpoint::stopping::kept;
use crate::comm::message::Encode;
use crate::error::Result;
use crate::observe::{Event, EventLog};
use crate::rank::protocol::Outgoing;

impl MasterRank {
    /// Records that a rank has left the farm. If the rank hangs in a task that has exceeded the time limit, its process counts as
    /// lost, but stays until the end of the job.
    pub(super) fn left(&mut self, rank: usize, out: &mut Outgoing<'_>) {
        match self.state.workers().state_of(rank) {
            WorkerState::Dead => return,
            WorkerState::TimedOut if out.endpoint().is_process() => {
                out.endpoint().lose(rank, "its task has exceeded the time limit and has not ended");
                out.endpoint().stays(rank);
            }
            _ => {}
        }
        self.state.tasks.workers_mut().set(rank, WorkerState::Left);
    }

    /// Ends the source and drops the tasks that are not dispatched, if the job was asked to stop: rank 0 then only waits for the chunks that ranks
    /// hold. Returns true if tasks remained.
    pub(super) fn stop_if_requested(&mut self, source: &mut dyn Source) -> bool {
        let remain = self.stop_requested && !(source.has_ended() && self.state.tasks.waiting() == 0);
        if remain {
            let (left, is_certain) = source.left();
            let all = is_certain && self.streaming;
            self.cut.get_or_insert(all.then(|| source.taken() + left));
            source.end();
            self.state.tasks.drop_waiting();
        }
        remain
    }

    pub(in super::super) fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    pub(super) fn dismiss(&mut self, rank: usize, out: &mut Outgoing<'_>) -> Result<()> {
        let frame = ToWorker::Finish.encode(out.run())?;
        out.send(rank, self.incumbent.add(rank, frame)?)
    }

    fn close(&mut self, elapsed: Duration) -> Result<()> {
        self.streaming = false;
        self.state.ending = true;
        let items = self.state.tasks.counts().ended;
        let TaskCounts { failed, retried, again, .. } = self.state.tasks.counts();
        if failed + retried + again > 0 {
            self.record_event(|| Event::Failures { failed, retried, again });
        }
        self.record_event(|| Event::Finish { items, seconds: elapsed.as_secs_f64() });
        self.forget_deaths()?;
        let closed = self.journal.take().map_or(Ok(()), ResultJournal::close);
        closed.map_err(|e| self.here(e))
    }
}

impl<'scope, 'w: 'scope, 'f: 'scope> MasterRun<'_, 'scope, '_, 'w, 'f> {
    pub(in super::super) fn finish(mut self, iterations: usize) -> Result<Summary> {
        let elapsed = self.master.clock.now().saturating_sub(self.master.start);
        let ended_with = self.master.state.workers().capacity();
        let sub_masters = self.master.state.groups.leaders();
        let size = self.endpoint.size();
        // Results in the journal that the stopped run has not restored are kept, too.
        let untaken = self.master.journal.as_ref().map_or(0, ResultJournal::untaken);
        self.master.close(elapsed)?;
        if let Some(total) = self.master.cut {
            let done = self.master.state.tasks.counts().ended + untaken;
            let journal = self.master.options.journal.as_ref().map(|(path, _)| path.as_path());
            self.endpoint.stop_run(&kept((done, total), "tasks", journal))?;
        }
        let out = &mut Outgoing::new(self.endpoint);
        self.master.dissolve_groups(out)?;
        for rank in 1..size {
            // Ranks that count as dead get the message that the run has ended, too, because they may only have been slow.
            if !self.master.state.groups.is_leader(rank) {
                self.master.dismiss(rank, out)?;
            }
        }
        self.wait_until(None, |master, out| {
            master.dismiss_submasters(out)?;
            Ok((1..size).all(|rank| master.state.is_ignored(rank)))
        })?;
        let MasterRun { mut master, endpoint, driver } = self;
        // Ranks that are still silent at the end of the run count as lost, so that no rank waits for them any longer.
        for rank in 1..size {
            if master.state.workers().state_of(rank) == WorkerState::Suspected {
                master.state.tasks.workers_mut().set(rank, WorkerState::Dead);
                master.state.lost.push(rank);
                endpoint.lose(rank, "it sent no heartbeat until the end of the farm");
            }
        }
        let counts = master.state.tasks.counts();
        endpoint.record_done(counts.ended);
        driver.finish()?;
        let (mut events, clock) = (std::mem::replace(&mut master.events, EventLog::off()), master.clock);
        let summary = Summary {
            name: master.name,
            tasks: counts.ended,
            known: master.state.known,
            failed: counts.failed,
            retried: counts.retried,
            again: counts.again,
            lost: master.state.lost,
            chunks: counts.chunks,
            copies: counts.copies,
            ended_in_copies: counts.ended_in_copies,
            chunking: master.options.chunking.to_string(),
            iterations,
            elapsed,
            ranks: master.state.reports,
            started_with: master.state.started_with,
            ended_with,
            change: master.controller.why().map(str::to_string),
            sub_masters,
        };
        events.record(clock.now(), || Event::totals_of(&summary));
        Ok(summary)
    }
}

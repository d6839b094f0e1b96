//! How a farm's run ends on rank 0.

use super::super::messages::{ToMaster, ToWorker};
use super::super::state::{TaskCounts, WorkerState};
use super::super::summary::Summary;
use super::MasterRank;
use crate::comm::message::Control;
use crate::error::Result;
use crate::observe::Event;
use crate::wire::Item;

impl<'scope, 'w: 'scope, 'f: 'scope, I: Item, O: Item> MasterRank<'_, 'scope, '_, 'w, 'f, I, O> {
    /// A worker has reported. One that hangs in a task does not come back from the run if it is a process.
    fn left(&mut self, rank: usize) {
        match self.state.workers().state_of(rank) {
            WorkerState::Dead => return,
            WorkerState::TimedOut if self.endpoint.is_process() => {
                self.endpoint.lose(rank, "it hangs in a task");
                self.endpoint.stays(rank);
            }
            _ => {}
        }
        self.state.tasks.workers_mut().set(rank, WorkerState::Left);
    }

    /// Lets the workers go and tells what the run was like.
    pub(in super::super) fn finish(mut self, iterations: usize) -> Result<Summary> {
        let now = self.clock.now();
        let elapsed = now.saturating_sub(self.start);
        self.streaming = false;
        self.state.ending = true;
        let ended_with = self.state.workers().capacity();
        let sub_masters = self.state.groups.leaders();
        let items = self.state.tasks.counts().ended;
        let TaskCounts { failed, retried, again, .. } = self.state.tasks.counts();
        if failed + retried + again > 0 {
            self.record_event(|| Event::Failures { failed, retried, again });
        }
        self.record_event(|| Event::Finish { items, seconds: elapsed.as_secs_f64() });
        self.forget_deaths()?;
        if let Some(journal) = self.journal.take() {
            journal.close().map_err(|e| e.in_farm(&self.name).at_rank(0))?;
        }
        self.dissolve_groups()?;
        for rank in (1..self.endpoint.size()).filter(|rank| !self.state.groups.is_leader(*rank)) {
            // Also to one that is taken for dead: it may only have been slow.
            ToWorker::Finish.send(self.endpoint, rank)?;
        }
        loop {
            self.let_leaders_go()?;
            if (1..self.endpoint.size()).all(|rank| self.state.is_gone(rank)) {
                break;
            }
            let mut moved = false;
            while let Some(message) = self.endpoint.poll()? {
                moved = true;
                let from = message.from;
                self.readmit(from)?;
                if message.is(Control::Echo) {
                    continue;
                }
                match ToMaster::decode(message)? {
                    ToMaster::Report(_) => self.left(from),
                    ToMaster::Join(join) => self.on_join(from, &join)?,
                    ToMaster::Status(status) => self.detector.on_status(from, status),
                    ToMaster::Lost(lost) => self.on_member_lost(from, lost)?,
                    // Results of a stream that was stopped, and what lost ranks still send.
                    ToMaster::Result(_)
                    | ToMaster::Results(_)
                    | ToMaster::TimedOut { .. }
                    | ToMaster::Retired => {}
                }
            }
            self.after_turn(moved, true)?;
        }
        // Nothing is wanted of those any more that have been silent until now, and nobody waits for them.
        for rank in 1..self.endpoint.size() {
            if self.state.workers().state_of(rank) == WorkerState::Suspected {
                self.state.tasks.workers_mut().set(rank, WorkerState::Dead);
                self.state.lost.push(rank);
                self.endpoint.lose(rank, "it has been silent until the end");
            }
        }
        let counts = self.state.tasks.counts();
        self.endpoint.note_done(counts.ended);
        self.executor.finish()?;
        Ok(Summary {
            name: self.name,
            tasks: counts.ended,
            known: self.state.known,
            failed: counts.failed,
            retried: counts.retried,
            again: counts.again,
            lost: self.state.lost,
            chunks: counts.chunks,
            chunking: self.options.chunking.to_string(),
            iterations,
            elapsed,
            ranks: self.state.reports,
            started_with: self.state.started_with,
            ended_with,
            change: self.controller.why().map(str::to_string),
            sub_masters,
        })
    }
}

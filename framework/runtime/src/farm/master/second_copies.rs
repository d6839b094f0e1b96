//! Second copies of the last chunks: dispatch by rank 0 to idle workers, and to itself.

use super::super::messages::{ChunkHeader, ToWorker};
use super::super::state::Sent;
use super::super::task_runner::Command;
use super::super::task_source::Source;
use super::super::traffic::ahead_of_members;
use super::MasterRank;
use crate::comm::message::Encode;
use crate::error::Result;
use crate::observe::Event;
use crate::rank::protocol::Outgoing;

impl MasterRank {
    pub(super) fn send_second_copies(&mut self, source: &dyn Source, out: &mut Outgoing<'_>) -> Result<bool> {
        let tasks = &self.state.tasks;
        if !self.options.second_copies || !source.has_ended() || tasks.waiting() > 0 || tasks.is_empty() {
            return Ok(false);
        }
        let copies = self.state.plan_copies(self.clock.now());
        for &(id, worker) in &copies {
            let Some(of) = self.state.tasks.holder(id) else { continue };
            let Some(copy) = self.state.tasks.give_copy(id, worker, self.clock.now()) else { continue };
            let (first, count) = (copy.first, copy.count.into());
            log::debug!(
                "farm {}: {count} tasks from {first} on of rank {of} go to rank {worker} as well",
                self.name
            );
            self.record_event(|| Event::Copied { from: of, to: worker, first, tasks: count });
            self.send_copy(copy, out)?;
        }
        Ok(!copies.is_empty())
    }

    fn send_copy(&mut self, copy: Sent, out: &mut Outgoing<'_>) -> Result<()> {
        let Sent { id, worker, first, count, skip, attempts, kept, .. } = copy;
        // The original chunk may be late because its tasks are long. The copy is therefore marked as possibly long (`suspect`), so that its tasks do
        // not run on the communicating thread.
        let header =
            ChunkHeader { id, first, count, skip, attempt: attempts.failed, suspect: true, alone: false };
        let payload = kept.payload;
        if worker == 0 {
            self.own_copies.push_back(Command::Chunk { header, payload, away: false });
            return Ok(());
        }
        let message = if self.state.groups.is_leader(worker) {
            let (ahead, most_tasks) = (ahead_of_members(self.state.ahead(Some(0))), self.state.most_tasks());
            ToWorker::Chunks { ahead, most_tasks, chunks: vec![(header, payload)] }
        } else {
            ToWorker::Chunk(header, payload)
        };
        let frame = message.encode(out.run())?;
        out.send(worker, self.incumbent.add(worker, frame)?)
    }

    /// Returns rank 0's next command to run the rest of one of its chunks or a second copy. Commands for chunks whose results have all arrived from
    /// other ranks are dropped.
    pub(super) fn next_of_own(&mut self) -> Option<Command> {
        let rests = std::iter::from_fn(|| self.rests.pop_front().map(Command::Rest));
        let copies = std::iter::from_fn(|| self.own_copies.pop_front());
        let state = &mut self.state;
        rests.chain(copies).find(|command| command.chunk().is_none_or(|id| state.keeps_own(id)))
    }
}

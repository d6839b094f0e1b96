//! Dispatch of tasks by rank 0, to workers that request chunks and to its own computing thread.

use super::super::messages::{self, ChunkHeader, Payload};
use super::super::state::{PendingTasks, WorkerState};
use super::super::task_runner::Command;
use super::super::task_source::{Source, Wanted};
use super::MasterRank;
use crate::comm::Frame;
use crate::error::{Error, Result};
use crate::observe::Event;
use crate::rank::protocol::Outgoing;
use crate::tasks::{Attempts, Suspicion};

/// One small task in `SAMPLED` is measured, because measuring the size of a task costs as much as encoding it. Tasks that are
/// suddenly large are noticed only at the next measured task.
const SAMPLED: usize = 8;

pub(super) struct Packed {
    pub(super) header: ChunkHeader,
    pub(super) attempts: Attempts,
    pub(super) frame: Frame,
    /// Encoded tasks of the chunk, kept until their results arrive, in case the tasks have to be sent again.
    pub(super) payload: Payload,
}

impl MasterRank {
    /// Dispatches chunks to all requesting workers. Busy workers receive one chunk at a time, so that idle workers that requested
    /// later are served first.
    pub(super) fn serve(&mut self, source: &mut dyn Source, out: &mut Outgoing<'_>) -> Result<bool> {
        let mut has_progressed = false;
        loop {
            if self.state.tasks.waiting() == 0 && source.has_ended() {
                return Ok(has_progressed);
            }
            let left = self.state.unassigned(source.to_share());
            let ahead = self.state.ahead(left);
            if self.state.workers().next_requesting(if has_progressed { 0.0 } else { ahead }).is_none() {
                return Ok(has_progressed);
            }
            self.state.update_knowledge(left, self.clock.now());
            let most = self.state.max_chunk();
            // The worker with the fewest chunks is tried first. It may get no chunk if the only tasks left have failed on it; the next worker is
            // tried then.
            let (mut dispatched, mut asked) = (false, 0);
            loop {
                let Some(worker) = self.state.workers().requesting(ahead).nth(asked) else { break };
                asked += 1;
                dispatched = if self.state.groups.is_leader(worker) {
                    self.serve_group(source, worker, (ahead, most), out)?
                } else {
                    self.serve_one(source, worker, most, out)?
                };
                let others_may = self.state.tasks.waiting() > 0 || self.state.sizes.has_reserved();
                if dispatched || !(others_may || self.has_time_limit()) {
                    break;
                }
            }
            if !dispatched {
                return Ok(has_progressed);
            }
            has_progressed = true;
        }
    }

    fn serve_one(
        &mut self,
        source: &mut dyn Source,
        worker: usize,
        most: u64,
        out: &mut Outgoing<'_>,
    ) -> Result<bool> {
        let Some((pending, _)) = self.next_tasks(source, worker, worker, most)? else { return Ok(false) };
        let begin = self.clock.now();
        let Packed { header, attempts, frame, payload } = self.pack(worker, pending)?;
        let bytes = payload.len();
        self.state.traffic.dispatched(header.count.into(), bytes);
        self.state.record_dispatch((worker, worker), (header, attempts), payload, self.clock.now());
        out.send(worker, self.incumbent.add(worker, frame)?)?;
        let took = self.clock.now().saturating_sub(begin);
        self.state.traffic.sent(took);
        self.controller.sent(bytes, took);
        Ok(true)
    }

    pub(super) fn has_request(&self, source: &dyn Source) -> bool {
        let left = self.state.unassigned(source.to_share());
        self.state.workers().next_requesting(self.state.ahead(left)).is_some()
    }

    /// Returns the next command for the computing thread of rank 0. A new chunk is short if rank 0 runs tasks on the communicating
    /// thread (`inline`).
    pub(super) fn compute(&mut self, source: &mut dyn Source, inline: bool) -> Result<Option<Command>> {
        if let Some(command) = self.next_of_own() {
            return Ok(Some(command));
        }
        let is_active = self.state.workers().state_of(0) == WorkerState::Active;
        if !is_active || (self.state.tasks.waiting() == 0 && source.has_ended()) {
            return Ok(None);
        }
        let left = self.state.unassigned(source.to_share());
        if !self.state.rank_0_may_take(left) {
            return Ok(None);
        }
        self.state.update_knowledge(left, self.clock.now());
        let grain = if inline { self.state.traffic.own_grain() } else { u64::MAX };
        let most = grain.min(self.state.max_chunk());
        let Some((pending, _)) = self.next_tasks(source, 0, 0, most)? else { return Ok(None) };
        self.state.traffic.kept(pending.tasks.len() as u64);
        let Packed { header, attempts, payload, .. } = self.pack(0, pending)?;
        self.state.record_dispatch((0, 0), (header, attempts), payload.clone(), self.clock.now());
        Ok(Some(Command::Chunk { header, payload, away: false }))
    }

    fn record_choice(&mut self) {
        let choice = self.state.sizes.take_choice();
        let Some(choice) = choice.filter(|_| self.events.is_on()) else { return };
        if choice.policy == choice.before && self.choice_recorded {
            return;
        }
        self.choice_recorded = true;
        self.record_event(|| Event::Chunks {
            by: choice.policy.to_string(),
            before: choice.before.to_string(),
            left: choice.left,
            workers: choice.workers,
            mean_s: choice.mean,
            deviation_s: choice.deviation,
            block: choice.block,
            message_s: choice.message,
            predicted_s: choice.predicted,
            before_s: Some(choice.predicted_before),
            compared: choice.compared,
        });
    }

    /// Returns the tasks of the next chunk for `worker`, and the worker for whose speed their number was chosen: `sized_for` (a member, if `worker`
    /// is a sub-master), or the member of an earlier choice for which the source had no tasks then.
    pub(super) fn next_tasks(
        &mut self,
        source: &mut dyn Source,
        worker: usize,
        sized_for: usize,
        most: u64,
    ) -> Result<Option<(PendingTasks, usize)>> {
        self.record_choice();
        let most = most.min(u32::MAX.into()).min(self.most_in_time(worker, sized_for));
        if most == 0 {
            self.state.drop_reserved(worker);
            return Ok(None);
        }
        if self.state.tasks.must_drain(worker) {
            return Ok(None);
        }
        if let Some(pending) = self.state.take_requeued(worker, sized_for, most) {
            return Ok(Some((pending, sized_for)));
        }
        let first = source.taken();
        let (end, mut attempts) = self.next_stretch(first);
        if source.has_ended() || end == first {
            return Ok(None);
        }
        let next = self.state.size_of_next(worker, sized_for, most.min(end - first).min(source.share()));
        let Some((size, sized_for)) = next else { return Ok(None) };
        let step = if self.state.window.are_small() { SAMPLED } else { 1 };
        let tasks = source.draw(Wanted { most: size, bytes: self.state.max_bytes(), step })?;
        let drawn = tasks.as_ref().map_or(0, |tasks| tasks.len() as u64);
        if drawn == 0 && !source.has_ended() {
            self.state.sizes.reserve(worker, sized_for, size);
            return Ok(None);
        }
        if drawn < size {
            self.state.sizes.return_tasks(size - drawn);
        }
        if source.drew_suspect_tasks() {
            attempts.suspicion = Suspicion::BELOW;
            self.state.tasks.count_deaths_from(1);
        }
        let mut pending = tasks.map(|tasks| PendingTasks { first, tasks, attempts, avoid: None });
        if attempts.is_suspect() {
            // Tasks in which ranks may have died in an earlier run of the job, and the descendants of tasks in which ranks may have died, are
            // dispatched only from the queue of requeued tasks, which selects the ranks that may run them.
            pending.take().into_iter().for_each(|pending| self.state.requeue(pending));
        }
        if source.has_ended() {
            self.state.set_remaining(source.left());
        }
        let pending = pending.or_else(|| self.state.take_requeued(worker, sized_for, most));
        Ok(pending.map(|pending| (pending, sized_for)))
    }

    pub(super) fn pack(&mut self, worker: usize, pending: PendingTasks) -> Result<Packed> {
        let header = self.state.header_of(&pending);
        let PendingTasks { tasks, attempts, .. } = pending;
        let packed = messages::encode_chunk(self.run, header, &*self.codecs.tasks, tasks);
        let (frame, payload) = packed.map_err(|e| {
            let text = format!("{} (in a chunk of {} tasks for rank {worker})", e.message(), header.count);
            self.here(Error::new(e.kind(), text).on_item(header.first))
        })?;
        Ok(Packed { header, attempts, frame, payload })
    }
}

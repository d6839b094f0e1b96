//! Second copies of outstanding chunks: two ranks run the same tasks, and the first result of each task counts. The functions of this module select
//! the tasks that a result, a failure or a loss affects; without a copy these are all tasks of the chunk.

use std::borrow::Cow;
use std::ops::Range;
use std::time::Duration;

use armature_planner::farm::{HeldChunk, second_copies};

use super::super::chunk_result::Failure;
use super::copied_chunks::Pair;
use super::{MasterState, OutstandingChunk, TaskTable, WorkerState};

impl<K: Clone> TaskTable<K> {
    /// Creates a second copy of the chunk `id` for `worker`; `None` if no copy is allowed.
    pub(crate) fn give_copy(&mut self, id: u64, worker: usize, now: Duration) -> Option<OutstandingChunk<K>> {
        if worker == 0 && !self.rank_0_may_copy() {
            return None;
        }
        let original = self.outstanding.get(&id).filter(|chunk| is_copyable(chunk))?.clone();
        self.outstanding.get_mut(&id)?.has_copy = true;
        let alone = self.workers.held(worker) == 0;
        let (copy_id, is_copy, has_copy) = (self.next_id, true, true);
        let copy = OutstandingChunk { id: copy_id, worker, since: now, alone, is_copy, has_copy, ..original };
        self.copies.0.push(Pair {
            chunks: [id, copy_id],
            first: copy.first,
            open: vec![true; copy.count as usize],
        });
        self.insert(copy.clone());
        self.counts.copies += 1;
        Some(copy)
    }
}

impl<K> TaskTable<K> {
    /// Marks tasks of a chunk as ended. Returns those that had not ended before in another copy of the chunk.
    pub(crate) fn close(&mut self, chunk: &OutstandingChunk<K>, tasks: Range<u64>) -> Vec<Range<u64>> {
        let Some(at) = self.copies.position(chunk.id) else { return only_tasks(chunk, tasks) };
        let runs = self.copies.0[at].close(tasks, |_| true);
        self.remove_closed(at);
        if chunk.is_copy {
            self.counts.ended_in_copies += runs.iter().map(|run| run.end - run.start).sum::<u64>();
        }
        runs
    }

    /// Selects the failures of tasks that have to be handled. A failure is ignored if the task has ended, or is still to run in another copy of the
    /// chunk.
    pub(crate) fn own_failures<'a>(
        &mut self,
        chunk: &OutstandingChunk<K>,
        failures: &'a [Failure],
    ) -> Cow<'a, [Failure]> {
        if !chunk.has_copy {
            return Cow::Borrowed(failures);
        }
        let counts = |failure: &&Failure| {
            let task = chunk.first + u64::from(failure.place);
            !self.take_back(chunk, task..task + 1).is_empty()
        };
        failures.iter().filter(counts).cloned().collect()
    }

    /// Takes back tasks of a chunk that failed or whose rank was lost. Returns the tasks that have to be requeued or fail: those that have not ended
    /// and are in no other copy of the chunk.
    pub(crate) fn take_back(&mut self, chunk: &OutstandingChunk<K>, tasks: Range<u64>) -> Vec<Range<u64>> {
        if chunk.superseded {
            return Vec::new();
        }
        let Some(at) = self.copies.position(chunk.id) else { return only_tasks(chunk, tasks) };
        let other =
            self.outstanding.get(&self.copies.0[at].other(chunk.id)).filter(|other| !other.superseded);
        let held = other.map_or(0..0, |other| other.first..other.first + u64::from(other.count));
        let runs = self.copies.0[at].close(tasks, |task| !held.contains(&task));
        self.remove_closed(at);
        runs
    }

    /// Marks the other copy of a lost chunk as not needed, if one of `tasks` is open in it. A rank may have died in one of these tasks, so they have
    /// to run alone. Returns the other copy; the caller has to take back its tasks after those of the lost chunk.
    pub(crate) fn recall_other(
        &mut self,
        lost: &OutstandingChunk<K>,
        tasks: Range<u64>,
    ) -> Option<OutstandingChunk<K>>
    where
        K: Clone,
    {
        let pair = self.copies.position(lost.id).map(|at| &self.copies.0[at]).filter(|_| !lost.superseded)?;
        let (other, mut places) = (pair.other(lost.id), tasks.map(|task| task.saturating_sub(pair.first)));
        if !places.any(|place| pair.open.get(place as usize) == Some(&true)) {
            return None;
        }
        let recalled = self.outstanding.get(&other).filter(|other| !other.superseded)?.clone();
        self.supersede(other);
        Some(recalled)
    }

    /// Removes the record of a chunk and its copy if all tasks have ended or were requeued. A rank may still run one of the two chunks; its results
    /// are not needed.
    fn remove_closed(&mut self, at: usize) {
        if !self.copies.0[at].open.contains(&true) {
            let pair = self.copies.0.swap_remove(at);
            pair.chunks.into_iter().for_each(|id| self.supersede(id));
        }
    }

    fn supersede(&mut self, id: u64) {
        if let Some(chunk) = self.outstanding.get_mut(&id).filter(|chunk| !chunk.superseded) {
            chunk.superseded = true;
            self.out -= u64::from(chunk.count);
        }
    }

    /// Returns true if rank 0 may run second copies of chunks. After the loss of a rank it may not, because the task that caused the loss may no
    /// longer be suspected, and would end the job if it killed rank 0.
    fn rank_0_may_copy(&self) -> bool {
        self.deaths.last == 0 && self.counts.again == 0
    }

    pub(crate) fn tasks_of(&self, worker: usize) -> u64 {
        let held = self.outstanding.values().filter(|chunk| chunk.worker == worker);
        held.map(|chunk| u64::from(chunk.count)).sum()
    }

    pub(crate) fn holder(&self, id: u64) -> Option<usize> {
        self.outstanding.get(&id).map(|chunk| chunk.worker)
    }

    /// Returns the chunk `id` of `worker` if none of its tasks is needed any more.
    pub(crate) fn superseded(&self, worker: usize, id: u64) -> Option<OutstandingChunk<K>>
    where
        K: Clone,
    {
        self.outstanding.get(&id).filter(|chunk| chunk.superseded && chunk.worker == worker).cloned()
    }
}

/// Returns true if a second copy of a chunk is allowed: there is none yet, and no rank may have died in its tasks.
fn is_copyable<K>(chunk: &OutstandingChunk<K>) -> bool {
    !chunk.has_copy && !chunk.attempts.is_suspect()
}

/// Returns the open tasks of a chunk without an entry in [`SecondCopies`]: `tasks` if the chunk was never copied, and none if all its
/// tasks have ended in the copy.
fn only_tasks<K>(chunk: &OutstandingChunk<K>, tasks: Range<u64>) -> Vec<Range<u64>> {
    if chunk.has_copy { Vec::new() } else { vec![tasks] }
}

impl MasterState {
    /// Chooses outstanding chunks for second copies, and an idle rank for each.
    pub(crate) fn plan_copies(&self, now: Duration) -> Vec<(u64, usize)> {
        let workers = self.workers();
        let mut idle: Vec<usize> = Vec::new();
        let is_idle = workers.state_of(0) == WorkerState::Active && workers.held(0) == 0;
        if self.computes && is_idle && self.tasks.rank_0_may_copy() {
            idle.push(0);
        }
        for rank in workers.requesting(0.0) {
            let free = workers.span(rank).saturating_sub(workers.held(rank) as usize);
            idle.extend(std::iter::repeat_n(rank, free));
        }
        if idle.is_empty() {
            return Vec::new();
        }
        let mut begun = vec![false; workers.size()];
        let held = self.tasks.outstanding.values().map(|chunk| {
            // All chunks of a sub-master run at the same time, on its members. Of the chunks of another rank only the first one runs.
            let is_leader = self.groups.is_leader(chunk.worker);
            let begins = is_leader || !std::mem::replace(&mut begun[chunk.worker], true);
            let last = if is_leader { Duration::ZERO } else { self.task_times.last_result[chunk.worker] };
            let running_for = begins.then(|| now.saturating_sub(chunk.since.max(last)).as_secs_f64());
            let (tasks, copyable) = (chunk.count.into(), is_copyable(chunk));
            HeldChunk { id: chunk.id, worker: chunk.worker, tasks, running_for, copyable }
        });
        let held: Vec<HeldChunk> = held.collect();
        let message = 2.0 * (self.traffic.messages(1).start_up.of(0.0) + self.traffic.latency());
        second_copies(&held, &idle, |rank| self.task_times.seconds_per_task[rank], message)
    }

    /// Returns true if rank 0 has to run its chunk `id`, or the rest of it. Returns false if no task of the chunk is needed any more, and then
    /// removes the chunk.
    pub(crate) fn keeps_own(&mut self, id: u64) -> bool {
        let Some(superseded) = self.tasks.superseded(0, id) else { return true };
        self.tasks.done(0, id, superseded.count);
        self.window_returns(&superseded);
        false
    }
}

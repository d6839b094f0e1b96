//! State of a farm's master: which rank holds which tasks, retries, and losses.
//!
//! The state has no clock, no thread and no transport, and does not inspect tasks or results. `README.md` in this directory describes the
//! protocol, the states and the invariants.

mod chunk_sizes;
mod copied_chunks;
mod death_records;
mod groups;
mod losses;
mod master;
mod second_copies;
mod submaster;
mod suspect_tasks;
mod task_times;
#[cfg(test)]
mod tests;
mod worker_table;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(crate) use crate::tasks::LastActivity;
use crate::tasks::{Attempts, Deaths};
use crate::wire::erased::Items;
pub(crate) use chunk_sizes::{ChunkSizes, Reserved};
use copied_chunks::SecondCopies;
pub(crate) use death_records::DeathRecords;
pub(crate) use groups::Groups;
pub(crate) use master::{Joined, MasterState, Sent};
pub(crate) use submaster::SubmasterState;
pub(crate) use suspect_tasks::Share;
pub(crate) use task_times::TaskTimes;
pub(crate) use worker_table::{Change, WorkerState, WorkerTable};

/// Consecutive tasks that no rank holds: they were drawn from the source and not dispatched, or they were requeued.
#[derive(Debug)]
pub(crate) struct PendingTasks {
    /// Number of the first task; the other tasks have consecutive numbers.
    pub(crate) first: u64,
    pub(crate) tasks: Items,
    /// Number of failed attempts of each task, and of rank deaths that each task may have caused. The numbers are the same for all tasks here.
    pub(crate) attempts: Attempts,
    /// Rank that runs the tasks only if no other rank can: the rank on which they failed, or rank 0 after the loss of a rank.
    pub(crate) avoid: Option<usize>,
}

impl PendingTasks {
    fn split_front(&mut self, most: u64) -> PendingTasks {
        let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, self.tasks.len());
        let tasks = self.tasks.split_front(most);
        let PendingTasks { first, attempts, avoid, .. } = *self;
        self.first += most as u64;
        PendingTasks { first, tasks, attempts, avoid }
    }
}

/// Chunk that a rank holds: its tasks without a result, and the encoded tasks, from which tasks can be requeued.
#[derive(Clone, Debug)]
pub(crate) struct OutstandingChunk<K> {
    pub(crate) id: u64,
    pub(crate) worker: usize,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Number of the chunk's tasks whose results have already arrived. They are the first of its encoded tasks.
    pub(crate) skip: u32,
    pub(crate) attempts: Attempts,
    /// Time of dispatch, by the master's clock.
    pub(crate) since: Duration,
    /// True if the time of the round trip can be measured: the worker held no other chunk at the dispatch, and has sent no results of this one yet.
    pub(crate) alone: bool,
    pub(crate) is_copy: bool,
    /// True if a second copy of the chunk was made, or the chunk is itself one.
    pub(crate) has_copy: bool,
    /// True if no task of the chunk is needed any more, because all have a result in another copy of the chunk or were requeued. The worker does not
    /// know this and runs the chunk.
    pub(crate) superseded: bool,
    pub(crate) kept: K,
}

/// All tasks of a run and the ranks that hold them. `K` is the type of the data that the master keeps of a dispatched chunk.
#[derive(Debug)]
pub(crate) struct TaskTable<K> {
    workers: WorkerTable,
    /// Number of failed attempts after which a task fails for good.
    tries: u32,
    /// Number of ranks that should run tasks.
    target: usize,
    back: VecDeque<PendingTasks>,
    outstanding: BTreeMap<u64, OutstandingChunk<K>>,
    copies: SecondCopies,
    next_id: u64,
    deaths: Deaths,
    /// Number of dispatched tasks without a result, except for tasks of chunks whose results are no longer needed.
    out: u64,
    waiting: u64,
    counts: TaskCounts,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskCounts {
    /// Number of tasks that have ended with a result or as failed tasks.
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    /// Number of times that a task was tried again, after an error of the task or the death of a rank in it.
    pub(crate) retried: u64,
    pub(crate) again: u64,
    pub(crate) chunks: u64,
    /// Number of dispatched second copies of chunks; `ended_in_copies` counts the tasks whose result came from a second copy.
    pub(crate) copies: u64,
    pub(crate) ended_in_copies: u64,
    /// Number of results dropped because their sender does not hold the chunk any more.
    pub(crate) stale: u64,
}

impl<K> TaskTable<K> {
    pub(crate) fn new(size: usize, retries: u32) -> Self {
        TaskTable {
            workers: WorkerTable::new(size),
            tries: retries.saturating_add(1),
            target: usize::MAX,
            back: VecDeque::new(),
            outstanding: BTreeMap::new(),
            copies: SecondCopies::default(),
            next_id: 0,
            deaths: Deaths::default(),
            out: 0,
            waiting: 0,
            counts: TaskCounts::default(),
        }
    }

    pub(crate) fn workers(&self) -> &WorkerTable {
        &self.workers
    }

    pub(crate) fn workers_mut(&mut self) -> &mut WorkerTable {
        &mut self.workers
    }

    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// Sets the number of ranks that should run tasks, at least 1. The caller then has to call [`adjust_active`](TaskTable::adjust_active).
    pub(crate) fn set_target(&mut self, target: usize) {
        self.target = target.max(1);
    }

    /// Adds a rank that has joined the farm. The rank is parked (gets no tasks) if enough ranks run tasks, together with `expected` ranks that have
    /// not joined yet, and otherwise active. Returns true if the rank is active.
    pub(crate) fn join(&mut self, rank: usize, expected: usize) -> bool {
        let works = self.workers.working() + expected < self.target;
        self.workers.set(rank, if works { WorkerState::Active } else { WorkerState::Parked });
        works
    }

    /// Parks ranks (they get no more tasks) and wakes ranks. Must be called when the intended number of active ranks has changed,
    /// when ranks have joined or are lost, and when tasks have failed: another rank is woken if the only active rank should not run a
    /// requeued task. `seconds` returns the time of a task on a rank, if it is known.
    pub(crate) fn adjust_active(&mut self, seconds: impl Fn(usize) -> Option<f64>) -> Change {
        let workers = &self.workers;
        let shunned =
            |p: &PendingTasks| p.avoid.is_some_and(|rank| workers.state_of(rank) == WorkerState::Active);
        // If only rank 0 is active, another rank is also needed for tasks in which ranks may have died, because rank 0 never runs these.
        let only_0 = workers.state_of(0) == WorkerState::Active && workers.working() == 1;
        let needs_other = |p: &PendingTasks| shunned(p) || (only_0 && p.attempts.is_suspect());
        let stuck =
            self.target == 1 && workers.working() + workers.parked() > 1 && self.back.iter().any(needs_other);
        let change = workers.adjust_active(if stuck { 2 } else { self.target }, seconds);
        change.parked.iter().for_each(|&rank| self.workers.set(rank, WorkerState::Parked));
        change.woken.iter().for_each(|&rank| self.workers.set(rank, WorkerState::Active));
        change
    }

    pub(crate) fn counts(&self) -> TaskCounts {
        self.counts
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    pub(crate) fn out(&self) -> u64 {
        self.out
    }

    /// Returns true if no task is dispatched or requeued. The run is complete if there are also no tasks left in the source.
    pub(crate) fn is_empty(&self) -> bool {
        self.out == 0 && self.back.is_empty()
    }

    /// Takes requeued tasks for `worker`. A rank gets a task that failed on it only if no other rank is active (gets tasks) or parked
    /// (could get tasks again).
    pub(crate) fn take_requeued(&mut self, worker: usize, most: u64) -> Option<PendingTasks> {
        let alone = self.workers.is_alone(worker);
        let suits = |p: &PendingTasks| match p.attempts.is_suspect() {
            true => self.may_try(worker, p.attempts, false),
            false => alone || p.avoid != Some(worker),
        };
        let at = self.back.iter().position(suits)?;
        let pending = &mut self.back[at];
        let suspicion = pending.attempts.suspicion;
        let most = if pending.attempts.is_suspect() { most.min(suspicion.most.into()) } else { most };
        let taken = if (pending.tasks.len() as u64) > most {
            pending.split_front(most)
        } else {
            self.back.remove(at)?
        };
        self.waiting -= taken.tasks.len() as u64;
        Some(taken)
    }

    /// Returns true if `worker` gets no chunks until it has finished those that it holds: a task in which ranks may have died waits for a worker
    /// without chunks, and `worker` may run this task.
    pub(crate) fn must_drain(&self, worker: usize) -> bool {
        let waits = |p: &PendingTasks| p.attempts.is_suspect() && self.may_try(worker, p.attempts, true);
        self.deaths.last > 0
            && self.workers.held(worker) > 0
            && !self.workers.is_leader(worker)
            && self.back.iter().any(waits)
    }

    /// Takes tasks that no rank may run any more, because ranks may have died in them.
    pub(crate) fn take_abandoned(&mut self) -> Option<PendingTasks> {
        let is_hopeless = |p: &PendingTasks| p.attempts.is_suspect() && self.is_hopeless(p.attempts);
        let at = if self.deaths.last > 0 { self.back.iter().position(is_hopeless)? } else { return None };
        let pending = self.back.remove(at)?;
        self.waiting -= pending.tasks.len() as u64;
        Some(pending)
    }

    /// Returns true if `worker` may run a task with these `attempts`, in which a rank may have died. The worker must not be rank 0, and must hold no
    /// chunks unless it is a sub-master or `idle` is true. The task must have a try left.
    fn may_try(&self, worker: usize, attempts: Attempts, idle: bool) -> bool {
        let free = idle || self.workers.is_leader(worker) || self.workers.held(worker) == 0;
        worker != 0 && free && !self.is_hopeless(attempts)
    }

    /// Returns true if no worker may ever run a task with these `attempts`: the task has used all its tries, or too few ranks other than 0 are alive
    /// for a task in which ranks may have died.
    fn is_hopeless(&self, attempts: Attempts) -> bool {
        attempts.is_hopeless(self.tries, self.workers.others())
    }

    pub(crate) fn tries(&self) -> u32 {
        self.tries
    }

    /// Records that `worker` holds a chunk of `count` tasks, from number `first` on. Returns the number of the chunk.
    pub(crate) fn dispatch(
        &mut self,
        worker: usize,
        (first, count): (u64, u32),
        attempts: Attempts,
        kept: K,
        now: Duration,
    ) -> u64 {
        let (id, alone) = (self.next_id, self.workers.held(worker) == 0);
        let (skip, is_copy, has_copy, superseded) = (0, false, false, false);
        let since = now;
        self.insert(OutstandingChunk {
            id,
            worker,
            first,
            count,
            skip,
            attempts,
            since,
            alone,
            is_copy,
            has_copy,
            superseded,
            kept,
        });
        if attempts.failed > 0 {
            self.counts.retried += u64::from(count);
        }
        if attempts.is_suspect() {
            self.workers.make_exclusive(worker);
        }
        id
    }

    fn insert(&mut self, chunk: OutstandingChunk<K>) {
        self.next_id += 1;
        self.out += u64::from(chunk.count);
        self.counts.chunks += 1;
        self.workers.dispatched(chunk.worker, chunk.count);
        self.outstanding.insert(chunk.id, chunk);
    }

    /// Records a result of the next `count` tasks of chunk `id` from `worker`. Returns the chunk reduced to these tasks, and true if no tasks of the
    /// chunk are left. Returns `None` if the caller has to drop the result, because `worker` does not hold the chunk any more or no task of it is
    /// needed.
    pub(crate) fn done(&mut self, worker: usize, id: u64, count: u32) -> Option<(OutstandingChunk<K>, bool)>
    where
        K: Clone,
    {
        let Some(outstanding) =
            self.outstanding.get_mut(&id).filter(|outstanding| outstanding.worker == worker)
        else {
            self.counts.stale += 1;
            return None;
        };
        let is_needed = !outstanding.superseded;
        if count > 0 && count < outstanding.count {
            let part = OutstandingChunk { count, ..outstanding.clone() };
            outstanding.first += u64::from(count);
            outstanding.count -= count;
            outstanding.skip += count;
            outstanding.alone = false;
            self.workers.received(worker, count, 0);
            return self.took(part, is_needed).map(|part| (part, false));
        }
        let outstanding = self.outstanding.remove(&id)?;
        self.workers.received(worker, outstanding.count, 1);
        self.took(outstanding, is_needed).map(|outstanding| (outstanding, true))
    }

    /// Returns the chunk of an arrived result; `None` if the result is not needed, because its tasks have another result or were requeued.
    fn took(&mut self, chunk: OutstandingChunk<K>, is_needed: bool) -> Option<OutstandingChunk<K>> {
        if !is_needed {
            self.counts.stale += 1;
            return None;
        }
        self.out -= u64::from(chunk.count);
        Some(chunk)
    }

    pub(crate) fn requeue(&mut self, pending: PendingTasks) {
        if pending.tasks.len() > 0 {
            self.waiting += pending.tasks.len() as u64;
            self.back.push_back(pending);
        }
    }

    pub(crate) fn ended(&mut self, tasks: u64, failed: u64) {
        self.counts.ended += tasks;
        self.counts.failed += failed;
    }

    /// Takes all chunks from `worker`. Returns them, oldest first; the caller has to [requeue](TaskTable::requeue) their tasks.
    pub(crate) fn lose(&mut self, worker: usize, state: WorkerState) -> Vec<OutstandingChunk<K>> {
        self.workers.set(worker, state);
        self.workers.forget(worker);
        let ids: Vec<u64> =
            self.outstanding.iter().filter(|(_, g)| g.worker == worker).map(|(id, _)| *id).collect();
        self.take_from(&ids)
    }

    /// Takes the chunks with the numbers `ids` from the sub-master `leader`, whose lost member has held them. The caller has to
    /// requeue their tasks.
    pub(crate) fn lose_member(&mut self, leader: usize, ids: &[u64]) -> Vec<OutstandingChunk<K>> {
        let its = |id: &u64| self.outstanding.get(id).is_some_and(|g| g.worker == leader);
        let ids: Vec<u64> = ids.iter().copied().filter(its).collect();
        let lost = self.take_from(&ids);
        lost.iter().for_each(|chunk| self.workers.received(leader, chunk.count, 1));
        lost
    }

    fn take_from(&mut self, ids: &[u64]) -> Vec<OutstandingChunk<K>> {
        let lost: Vec<OutstandingChunk<K>> =
            ids.iter().filter_map(|id| self.outstanding.remove(id)).collect();
        let tasks: u64 = lost.iter().filter(|g| !g.superseded).map(|g| u64::from(g.count)).sum();
        self.out -= tasks;
        self.counts.again += tasks;
        lost
    }

    pub(crate) fn drop_waiting(&mut self) {
        self.back.clear();
        self.waiting = 0;
    }

    pub(crate) fn describe(&self) -> String {
        let needed = || self.outstanding.values().filter(|chunk| !chunk.superseded);
        let mut text = format!(
            "{} tasks ended, {} out in {} chunks, {} waiting to be tried again",
            self.counts.ended,
            self.out,
            needed().count(),
            self.waiting
        );
        if let Some(oldest) = needed().next() {
            text += &format!(
                "; the oldest chunk is tasks {} to {} on rank {}",
                oldest.first,
                oldest.first + u64::from(oldest.count) - 1,
                oldest.worker
            );
        }
        text
    }
}

//! What the master of a farm knows and decides: who has which tasks, and what becomes of them.
//!
//! No clock, no thread, no transport, no item that is looked at. The `README.md` beside this file has the protocol,
//! the states and the invariants.

mod chunk_sizes;
mod death_records;
mod groups;
mod losses;
mod master;
mod submaster;
mod suspects;
mod suspicion;
#[cfg(test)]
mod tests;
mod worker_table;

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

pub(crate) use crate::rank::suspicion::Suspicion;
pub(crate) use chunk_sizes::{ChunkSizes, Reserved};
pub(crate) use death_records::DeathRecords;
pub(crate) use groups::Groups;
pub(crate) use master::{Joined, MasterState, Sent, SentChunk};
pub(crate) use submaster::SubmasterState;
pub(crate) use suspects::{LastActivity, Reassigned};
pub(crate) use worker_table::{Change, WorkerState, WorkerTable};

/// Consecutive tasks that lie at the master: drawn and not given to anyone, or come back from somebody.
#[derive(Debug)]
pub(crate) struct PendingTasks<T> {
    /// Number of the first task.
    pub(crate) first: u64,
    pub(crate) tasks: Vec<T>,
    /// How often each of them has been tried before.
    pub(crate) attempt: u32,
    /// Where the last try failed: another rank is preferred.
    pub(crate) avoid: Option<usize>,
    /// Whether ranks have died over them.
    pub(crate) suspicion: Suspicion,
}

impl<T> PendingTasks<T> {
    fn split_front(&mut self, most: u64) -> PendingTasks<T> {
        let most = usize::try_from(most).unwrap_or(usize::MAX).clamp(1, self.tasks.len());
        let rest = self.tasks.split_off(most);
        let tasks = std::mem::replace(&mut self.tasks, rest);
        let first = self.first;
        self.first += most as u64;
        PendingTasks { first, tasks, attempt: self.attempt, avoid: self.avoid, suspicion: self.suspicion }
    }
}

/// A chunk that somebody has: which of its tasks have no result yet, and what is kept of all of them in case they come back.
#[derive(Clone, Debug)]
pub(crate) struct OutstandingChunk<K> {
    pub(crate) id: u64,
    pub(crate) worker: usize,
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Tasks in front of these, whose results have come before.
    pub(crate) skip: u32,
    pub(crate) attempt: u32,
    pub(crate) suspicion: Suspicion,
    /// When it was given, by the master's clock.
    pub(crate) since: Duration,
    /// Whether its worker had no other chunk then.
    pub(crate) alone: bool,
    pub(crate) kept: K,
}

/// What is to be done about a task that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryDecision {
    /// It is tried again.
    Retry,
    /// It has failed for good.
    Failed,
}

/// The master's machine: `T` is a task, `K` what is kept of a chunk that was given away.
#[derive(Debug)]
pub(crate) struct TaskTable<T, K> {
    workers: WorkerTable,
    retries: u32,
    /// How many ranks are to work, those that are away or lost not counted.
    target: usize,
    /// Tasks that came back, the oldest first.
    back: VecDeque<PendingTasks<T>>,
    given: BTreeMap<u64, OutstandingChunk<K>>,
    next_id: u64,
    /// Deaths over tasks so far.
    deaths: u32,
    /// Tasks in `given`.
    out: u64,
    /// Tasks in `back`.
    waiting: u64,
    counts: TaskCounts,
}

/// What has happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct TaskCounts {
    /// Tasks that have a result or have failed for good.
    pub(crate) ended: u64,
    pub(crate) failed: u64,
    /// Tries after the first, because of an error or a death.
    pub(crate) retried: u64,
    /// Tasks that were handed out again because their worker was lost.
    pub(crate) again: u64,
    pub(crate) chunks: u64,
    /// Results that came for chunks which somebody else has by now.
    pub(crate) late: u64,
}

impl<T, K> TaskTable<T, K> {
    /// The machine of rank 0 among `size` ranks; nobody has joined yet.
    pub(crate) fn new(size: usize, retries: u32) -> Self {
        TaskTable {
            workers: WorkerTable::new(size),
            retries,
            target: usize::MAX,
            back: VecDeque::new(),
            given: BTreeMap::new(),
            next_id: 0,
            deaths: 0,
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

    /// How many ranks are to work.
    pub(crate) fn target(&self) -> usize {
        self.target
    }

    /// `target` ranks are to work from now on; see [`adjust_active`](TaskTable::adjust_active).
    pub(crate) fn set_target(&mut self, target: usize) {
        self.target = target.max(1);
    }

    /// A rank has come: it works, or is parked if enough do or will, `expected` of whom have not come yet. Returns
    /// whether it works.
    pub(crate) fn join(&mut self, rank: usize, expected: usize) -> bool {
        let works = self.workers.working() + expected < self.target;
        self.workers.set(rank, if works { WorkerState::Active } else { WorkerState::Parked });
        works
    }

    /// Parks and wakes ranks so that as many work as are to: to be called when that number has changed, when ranks have
    /// come or are lost, and when tasks have failed. A task that failed on the only rank that works is reason enough to
    /// wake another.
    pub(crate) fn adjust_active(&mut self, seconds: impl Fn(usize) -> Option<f64>) -> Change {
        let workers = &self.workers;
        let shunned =
            |p: &PendingTasks<T>| p.avoid.is_some_and(|rank| workers.state_of(rank) == WorkerState::Active);
        // Rank 0 alone does no tasks that ranks have died over.
        let only_0 = workers.state_of(0) == WorkerState::Active && workers.working() == 1;
        let needs_other = |p: &PendingTasks<T>| shunned(p) || (only_0 && p.suspicion.is_there());
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

    /// The number that the next chunk will have.
    pub(crate) fn next_id(&self) -> u64 {
        self.next_id
    }

    /// Tasks that came back and wait for somebody.
    pub(crate) fn waiting(&self) -> u64 {
        self.waiting
    }

    /// Tasks that somebody has.
    pub(crate) fn out(&self) -> u64 {
        self.out
    }

    /// True when nobody has a task and none has come back: with a source that has ended, the end.
    pub(crate) fn is_empty(&self) -> bool {
        self.given.is_empty() && self.back.is_empty()
    }

    /// The oldest task that came back and that `worker` should try, at most `most` of them, if there are any.
    ///
    /// A rank on which a task has failed gets it again only where nobody else is there to try.
    pub(crate) fn take_requeued(&mut self, worker: usize, most: u64) -> Option<PendingTasks<T>> {
        let alone = self.workers.is_alone(worker);
        let suits = |p: &PendingTasks<T>| match p.suspicion.is_there() {
            true => !self.is_spent(p) && suspicion::may_try(&self.workers, worker, p.suspicion, false),
            false => alone || p.avoid != Some(worker),
        };
        let at = self.back.iter().position(suits)?;
        let pending = &mut self.back[at];
        let most = if pending.suspicion.is_there() { most.min(pending.suspicion.most.into()) } else { most };
        let taken = if (pending.tasks.len() as u64) > most {
            pending.split_front(most)
        } else {
            self.back.remove(at)?
        };
        self.waiting -= taken.tasks.len() as u64;
        Some(taken)
    }

    /// Whether `worker` is to finish what it has and gets nothing else before: tasks wait that ranks have died over, which
    /// it may try as soon as it has nothing.
    pub(crate) fn must_drain(&self, worker: usize) -> bool {
        let waits = |p: &PendingTasks<T>| {
            p.suspicion.is_there() && suspicion::may_try(&self.workers, worker, p.suspicion, true)
        };
        self.deaths > 0
            && self.workers.held(worker) > 0
            && !self.workers.is_leader(worker)
            && self.back.iter().any(waits)
    }

    /// Takes tasks out that ranks have died over and that nobody may try any more, if there are some.
    pub(crate) fn take_abandoned(&mut self) -> Option<PendingTasks<T>> {
        let nobody = |p: &PendingTasks<T>| {
            p.suspicion.is_there() && !suspicion::is_worth_a_rank(&self.workers, p.suspicion)
        };
        let hopeless = |p: &PendingTasks<T>| self.is_spent(p) || nobody(p);
        let at = if self.deaths > 0 { self.back.iter().position(hopeless)? } else { return None };
        let pending = self.back.remove(at)?;
        self.waiting -= pending.tasks.len() as u64;
        Some(pending)
    }

    /// Whether ranks have died of it as often as they may.
    fn is_spent(&self, pending: &PendingTasks<T>) -> bool {
        pending.suspicion.certain > 0 && self.is_exhausted(pending.attempt)
    }

    /// Whether a task that has been tried `attempt` times has had all its attempts.
    pub(crate) fn is_exhausted(&self, attempt: u32) -> bool {
        attempt > self.retries
    }

    /// DeathNotes that `worker` is given `count` tasks from `first` on; returns the chunk's number.
    pub(crate) fn give(
        &mut self,
        worker: usize,
        (first, count): (u64, u32),
        (attempt, suspicion): (u32, Suspicion),
        kept: K,
        now: Duration,
    ) -> u64 {
        let id = self.next_id;
        self.next_id += 1;
        let alone = self.workers.held(worker) == 0;
        self.given.insert(
            id,
            OutstandingChunk {
                id,
                worker,
                first,
                count,
                skip: 0,
                attempt,
                suspicion,
                since: now,
                alone,
                kept,
            },
        );
        self.out += u64::from(count);
        self.counts.chunks += 1;
        if attempt > 0 {
            self.counts.retried += u64::from(count);
        }
        self.workers.gave(worker);
        if suspicion.is_there() {
            self.workers.make_exclusive(worker);
        }
        id
    }

    /// A result of the next `count` tasks of chunk `id` has come from `worker`. Returns the chunk with these tasks alone, and
    /// whether they are the last of it. `None`: the chunk is not `worker`'s any more, and the result must not be used.
    pub(crate) fn done(&mut self, worker: usize, id: u64, count: u32) -> Option<(OutstandingChunk<K>, bool)>
    where
        K: Clone,
    {
        let Some(given) = self.given.get_mut(&id).filter(|given| given.worker == worker) else {
            self.counts.late += 1;
            return None;
        };
        if count > 0 && count < given.count {
            let part = OutstandingChunk { count, ..given.clone() };
            given.first += u64::from(count);
            given.count -= count;
            given.skip += count;
            given.alone = false;
            self.out -= u64::from(count);
            return Some((part, false));
        }
        let given = self.given.remove(&id)?;
        self.out -= u64::from(given.count);
        self.workers.got(worker);
        Some((given, true))
    }

    /// What becomes of a task that has failed after `attempt` earlier tries.
    pub(crate) fn fate(&self, attempt: u32) -> RetryDecision {
        if attempt < self.retries { RetryDecision::Retry } else { RetryDecision::Failed }
    }

    /// Tasks come back: they were tried in vain, or their worker was lost.
    pub(crate) fn put_back(&mut self, pending: PendingTasks<T>) {
        if !pending.tasks.is_empty() {
            self.waiting += pending.tasks.len() as u64;
            self.back.push_back(pending);
        }
    }

    /// `tasks` tasks have ended, `failed` of them without a result.
    pub(crate) fn ended(&mut self, tasks: u64, failed: u64) {
        self.counts.ended += tasks;
        self.counts.failed += failed;
    }

    /// `worker` is not used any more: returns what it had, oldest first, whose tasks are to be
    /// [put back](TaskTable::put_back).
    pub(crate) fn lose(&mut self, worker: usize, state: WorkerState) -> Vec<OutstandingChunk<K>> {
        self.workers.set(worker, state);
        self.workers.forget(worker);
        let ids: Vec<u64> =
            self.given.iter().filter(|(_, g)| g.worker == worker).map(|(id, _)| *id).collect();
        self.take_from(&ids)
    }

    /// A worker of the sub-master `leader` is lost: returns its chunks, whose numbers are `ids`, like [`lose`](TaskTable::lose).
    pub(crate) fn lose_member(&mut self, leader: usize, ids: &[u64]) -> Vec<OutstandingChunk<K>> {
        let its = |id: &u64| self.given.get(id).is_some_and(|g| g.worker == leader);
        let ids: Vec<u64> = ids.iter().copied().filter(its).collect();
        ids.iter().for_each(|_| self.workers.got(leader));
        self.take_from(&ids)
    }

    fn take_from(&mut self, ids: &[u64]) -> Vec<OutstandingChunk<K>> {
        let lost: Vec<OutstandingChunk<K>> = ids.iter().filter_map(|id| self.given.remove(id)).collect();
        let tasks: u64 = lost.iter().map(|g| u64::from(g.count)).sum();
        self.out -= tasks;
        self.counts.again += tasks;
        lost
    }

    /// Forgets everything that is not given away, because nothing more is wanted.
    pub(crate) fn drop_waiting(&mut self) {
        self.back.clear();
        self.waiting = 0;
    }

    /// What the machine waits for, for an error message.
    pub(crate) fn describe(&self) -> String {
        let mut text = format!(
            "{} tasks ended, {} out in {} chunks, {} waiting to be tried again",
            self.counts.ended,
            self.out,
            self.given.len(),
            self.waiting
        );
        if let Some(oldest) = self.given.values().next() {
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

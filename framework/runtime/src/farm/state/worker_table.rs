//! Table of a farm's ranks: their states, the chunks that they hold, and the order in which they are served.

use std::collections::BTreeSet;

use armature_planner::farm::WorkerCount;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerState {
    Expected,
    Active,
    /// The rank gets no tasks, because the farm is faster with fewer workers; it finishes the chunks that it holds.
    Parked,
    /// The rank works for a sub-master.
    Delegated,
    /// The rank hangs in a task that has exceeded the user's time limit.
    TimedOut,
    /// The rank computes on the communicating thread and has sent no message for long: it is dead, or in a task that takes longer than its earlier
    /// tasks. It gets no tasks until it sends a message.
    Suspected,
    /// The process of the rank has ended, or the rank has sent no message for longer than the limit.
    Dead,
    Left,
}

/// Value in place of the number of chunks per worker, for a rank that must get no further chunks.
const NEVER: u32 = u32::MAX;

/// Ranks that a decision about the number of workers parks (they get no more tasks) or wakes, and that have to be notified.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) parked: Vec<usize>,
    pub(crate) woken: Vec<usize>,
}

/// Table of ranks by number. A worker *requests* chunks, without a message, as long as it holds no more chunks than it may have in advance: each
/// result that it sends is also a request for another chunk.
#[derive(Debug)]
pub(crate) struct WorkerTable {
    state: Vec<WorkerState>,
    held: Vec<u32>,
    /// Number of tasks in the chunks that a rank holds, without those whose results have arrived.
    tasks: Vec<u64>,
    /// Number of tasks above which a worker gets no further chunk.
    most_tasks: u32,
    /// True for a worker that held more than `most_tasks` tasks when its tasks were last counted.
    is_full: Vec<bool>,
    /// True for a rank with a chunk of tasks in which ranks may have died. The rank gets no other chunk until that chunk is completed.
    exclusive: Vec<bool>,
    /// Number of workers that a rank supplies with chunks: its members if it is a sub-master, otherwise 1, the rank itself.
    span: Vec<u32>,
    /// Active ranks, each with the number of chunks that it holds per worker, sorted by that number.
    requesting: BTreeSet<(u32, usize)>,
    /// Number of workers on all active ranks (those that get tasks); the members of sub-masters count.
    capacity: usize,
    parked: usize,
}

impl WorkerTable {
    pub(super) fn new(size: usize) -> Self {
        WorkerTable {
            state: vec![WorkerState::Expected; size],
            held: vec![0; size],
            tasks: vec![0; size],
            most_tasks: u32::MAX,
            is_full: vec![false; size],
            exclusive: vec![false; size],
            span: vec![1; size],
            requesting: BTreeSet::new(),
            capacity: 0,
            parked: 0,
        }
    }

    pub(crate) fn state_of(&self, rank: usize) -> WorkerState {
        self.state[rank]
    }

    /// Returns true if rank 0 neither needs nor expects a message of this rank any more.
    pub(crate) fn is_ignored(&self, rank: usize) -> bool {
        matches!(self.state[rank], WorkerState::Dead | WorkerState::Suspected | WorkerState::Left)
    }

    /// Returns the number of active ranks (which get tasks); a sub-master counts as one.
    pub(crate) fn working(&self) -> usize {
        self.requesting.len()
    }

    /// Returns the number of workers on active ranks (which get tasks); a sub-master counts with its members.
    pub(crate) fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns the number of chunks that a rank holds for each of its workers.
    fn level(&self, rank: usize) -> u32 {
        if self.exclusive[rank] || self.is_full[rank] { NEVER } else { self.held[rank] / self.span[rank] }
    }

    /// Returns the number of chunks that a rank may receive if it may hold `ahead` chunks for each of its workers in addition to the running ones. A
    /// fraction counts as a whole chunk for a worker; a sub-master holds that fraction of a chunk for each of its members.
    pub(crate) fn room(&self, rank: usize, ahead: f64) -> u32 {
        if self.is_full[rank] {
            return 0;
        }
        let span = self.span[rank];
        let ahead = (f64::from(span) * ahead).ceil() as u32;
        span.saturating_add(ahead).saturating_sub(self.held[rank])
    }

    pub(crate) fn set_capacity(&mut self, rank: usize, span: u32) {
        let state = self.state[rank];
        self.remove(rank);
        self.span[rank] = span.max(1);
        // The members of a sub-master get chunks even if the sub-master still runs a long one.
        let is_leader = self.is_leader(rank);
        self.is_full[rank] &= !is_leader;
        if state == WorkerState::Active {
            self.insert(rank);
        }
    }

    fn remove(&mut self, rank: usize) {
        if self.requesting.remove(&(self.level(rank), rank)) {
            self.capacity -= self.span[rank] as usize;
        }
    }

    fn insert(&mut self, rank: usize) {
        if self.requesting.insert((self.level(rank), rank)) {
            self.capacity += self.span[rank] as usize;
        }
    }

    pub(super) fn others(&self) -> usize {
        let workers = |rank| match self.state_of(rank) {
            WorkerState::Active => self.span(rank),
            WorkerState::Parked | WorkerState::Expected | WorkerState::Suspected => 1,
            WorkerState::Delegated | WorkerState::TimedOut | WorkerState::Dead | WorkerState::Left => 0,
        };
        (1..self.size()).map(workers).sum()
    }

    pub(crate) fn size(&self) -> usize {
        self.state.len()
    }

    pub(crate) fn span(&self, rank: usize) -> usize {
        self.span[rank] as usize
    }

    pub(super) fn is_leader(&self, rank: usize) -> bool {
        self.span[rank] > 1
    }

    /// Ensures that a worker gets no chunks until it has finished those that it holds.
    pub(super) fn make_exclusive(&mut self, rank: usize) {
        if !self.is_leader(rank) {
            self.remove(rank);
            self.exclusive[rank] = true;
            self.count(rank, self.held[rank], self.tasks[rank]);
        }
    }

    pub(super) fn forget(&mut self, rank: usize) {
        self.count(rank, 0, 0);
    }

    pub(crate) fn parked(&self) -> usize {
        self.parked
    }

    /// Returns true if no rank except `rank` is active (gets tasks) or parked (waits without tasks).
    pub(super) fn is_alone(&self, rank: usize) -> bool {
        self.parked == 0 && self.working() == usize::from(self.state[rank] == WorkerState::Active)
    }

    pub(crate) fn held(&self, rank: usize) -> u32 {
        self.held[rank]
    }

    pub(crate) fn holders(&self) -> impl Iterator<Item = usize> {
        self.held.iter().enumerate().skip(1).filter(|&(_, held)| *held > 0).map(|(rank, _)| rank)
    }

    /// Sets the state of a rank. A rank that is lost or has left holds no chunks any more; a parked rank (one that gets no further tasks) keeps its
    /// chunks.
    pub(crate) fn set(&mut self, rank: usize, state: WorkerState) {
        self.remove(rank);
        self.parked -= usize::from(self.state[rank] == WorkerState::Parked);
        self.state[rank] = state;
        match state {
            WorkerState::Active => self.insert(rank),
            WorkerState::Parked => self.parked += 1,
            // A rank that has not joined yet or works for a sub-master keeps the chunks that were sent to it earlier.
            WorkerState::Expected | WorkerState::Delegated => {}
            WorkerState::TimedOut | WorkerState::Suspected | WorkerState::Dead | WorkerState::Left => {
                (self.held[rank], self.tasks[rank]) = (0, 0);
                (self.exclusive[rank], self.is_full[rank]) = (false, false);
            }
        }
    }

    fn all(&self, state: WorkerState) -> impl Iterator<Item = usize> {
        self.state.iter().enumerate().filter(move |&(_, s)| *s == state).map(|(rank, _)| rank)
    }

    /// Returns the ranks to be parked (to get no more tasks) and woken, so that `target` ranks are active. The slowest ranks are parked first and the
    /// fastest woken first, by the `seconds` of a task on each of them. Rank 0 is never parked.
    pub(super) fn adjust_active(&self, target: usize, seconds: impl Fn(usize) -> Option<f64>) -> Change {
        let (working, target) = (self.working(), target.max(1));
        let mut change = Change::default();
        if working > target {
            let times: Vec<_> =
                self.all(WorkerState::Active).filter(|&r| r > 0).map(|r| (r, seconds(r))).collect();
            let others = target - usize::from(self.state[0] == WorkerState::Active);
            let stay = WorkerCount::active(&times, others);
            let parked = times.into_iter().map(|(rank, _)| rank).filter(|r| stay.binary_search(r).is_err());
            change.parked = parked.collect();
        } else if working < target && self.parked > 0 {
            let times: Vec<_> = self.all(WorkerState::Parked).map(|r| (r, seconds(r))).collect();
            change.woken = WorkerCount::active(&times, target - working);
        }
        change
    }

    /// Sets the number of tasks above which a worker gets no further chunk. It holds for a worker from the next time that its tasks are counted.
    pub(super) fn set_most_tasks(&mut self, most_tasks: u32) {
        self.most_tasks = most_tasks;
    }

    pub(super) fn dispatched(&mut self, rank: usize, tasks: u32) {
        self.count(rank, self.held[rank] + 1, self.tasks[rank] + u64::from(tasks));
    }

    /// Counts the results of `tasks` tasks, which complete `chunks` chunks: 0 or 1.
    pub(super) fn received(&mut self, rank: usize, tasks: u32, chunks: u32) {
        let left = self.tasks[rank].saturating_sub(tasks.into());
        self.count(rank, self.held[rank].saturating_sub(chunks), left);
    }

    fn count(&mut self, rank: usize, held: u32, tasks: u64) {
        self.remove(rank);
        (self.held[rank], self.tasks[rank]) = (held, tasks);
        self.exclusive[rank] &= held > 0;
        self.is_full[rank] = held > 0 && tasks > self.most_tasks.into() && !self.is_leader(rank);
        if self.state[rank] == WorkerState::Active {
            self.insert(rank);
        }
    }

    /// Returns the ranks that may get a chunk, because they hold at most `ahead` chunks per worker; those with the fewest come first.
    /// Rank 0 is left out.
    pub(crate) fn requesting(&self, ahead: f64) -> impl Iterator<Item = usize> {
        let fewest = self.requesting.iter().filter(|&&(_, rank)| rank != 0);
        let most = ahead.ceil() as u32;
        let fewest = fewest.take_while(move |&&(level, _)| level <= most && level < NEVER);
        fewest.map(|&(_, rank)| rank).filter(move |&rank| self.room(rank, ahead) > 0)
    }

    pub(crate) fn next_requesting(&self, ahead: f64) -> Option<usize> {
        self.requesting(ahead).next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn worker_with_tasks_for_long_gets_no_further_chunk() {
        let mut workers = WorkerTable::new(3);
        (0..3).for_each(|r| workers.set(r, WorkerState::Active));
        workers.set_most_tasks(20);
        workers.dispatched(1, 20);
        workers.dispatched(2, 45);
        let requesting = |workers: &WorkerTable| workers.requesting(1.0).collect::<Vec<_>>();
        assert_eq!((requesting(&workers), workers.room(2, 1.0)), (vec![1], 0));
        // Results of a part of the chunk.
        workers.received(2, 30, 0);
        assert_eq!((requesting(&workers), workers.room(2, 1.0)), (vec![1, 2], 1));
        workers.dispatched(2, 15);
        assert_eq!(requesting(&workers), [1]);
        workers.received(2, 15, 1);
        workers.received(2, 15, 1);
        assert_eq!((requesting(&workers), workers.held(2)), (vec![2, 1], 0));
        // A worker that becomes a sub-master.
        workers.dispatched(2, 45);
        workers.set_capacity(2, 2);
        assert!(requesting(&workers).contains(&2) && workers.room(2, 1.0) > 0);
        workers.received(2, 45, 1);
        workers.set_capacity(2, 1);
        // A single task that takes long.
        workers.set_most_tasks(0);
        workers.dispatched(2, 1);
        assert_eq!((requesting(&workers), workers.working()), (vec![1], 3));
        workers.set(2, WorkerState::Suspected);
        workers.set(2, WorkerState::Active);
        assert_eq!(requesting(&workers), [2, 1]);
    }

    #[test]
    fn worker_with_the_fewest_chunks_is_served_first() {
        let mut workers = WorkerTable::new(4);
        assert_eq!(workers.next_requesting(9.0), None, "nobody has joined");
        (0..4).for_each(|r| workers.set(r, WorkerState::Active));
        let mut served = Vec::new();
        while let Some(rank) = workers.next_requesting(1.0) {
            workers.dispatched(rank, 1);
            served.push(rank);
        }
        assert_eq!(served, [1, 2, 3, 1, 2, 3]);
        workers.received(2, 1, 1);
        assert_eq!(workers.next_requesting(1.0), Some(2));
        workers.set(2, WorkerState::Dead);
        assert_eq!((workers.next_requesting(1.0), workers.held(2), workers.working()), (None, 0, 3));
        workers.received(3, 1, 1);
        assert_eq!((workers.next_requesting(1.0), workers.held(3)), (Some(3), 1));
    }

    #[test]
    fn sub_master_holds_the_chunks_ahead_for_all_its_members() {
        let mut workers = WorkerTable::new(3);
        (1..3).for_each(|rank| workers.set(rank, WorkerState::Active));
        workers.set_capacity(1, 8);
        assert_eq!([0.0, 0.05, 0.5, 1.0].map(|ahead| workers.room(1, ahead)), [8, 9, 12, 16]);
        assert_eq!([0.0, 0.05, 0.5, 1.0].map(|ahead| workers.room(2, ahead)), [1, 2, 2, 2]);
        (0..8).for_each(|_| workers.dispatched(1, 1));
        workers.dispatched(2, 1);
        assert_eq!((workers.next_requesting(0.0), workers.next_requesting(0.05)), (None, Some(1)));
        workers.dispatched(1, 1);
        assert_eq!(workers.requesting(0.05).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn slowest_workers_are_parked_and_fastest_woken() {
        let mut workers = WorkerTable::new(5);
        let seconds = |rank: usize| [None, Some(0.2), Some(0.1), None, Some(0.9)][rank];
        (0..5).for_each(|r| workers.set(r, WorkerState::Active));
        workers.dispatched(4, 1);
        let change = workers.adjust_active(3, seconds);
        assert_eq!(change, Change { parked: vec![3, 4], woken: vec![] });
        change.parked.into_iter().for_each(|r| workers.set(r, WorkerState::Parked));
        assert_eq!((workers.working(), workers.parked(), workers.held(4)), (3, 2, 1), "it keeps what it has");
        assert_eq!(
            (workers.adjust_active(3, seconds), workers.adjust_active(4, seconds).woken),
            (Change::default(), vec![3])
        );
        assert_eq!(workers.adjust_active(0, seconds).parked, [1, 2], "rank 0 goes on");
        workers.received(4, 1, 1);
        workers.set(4, WorkerState::Active);
        assert_eq!(
            (workers.held(4), workers.parked(), workers.adjust_active(9, seconds).woken),
            (0, 1, vec![3])
        );
        workers.set(3, WorkerState::Dead);
        assert_eq!((workers.parked(), workers.adjust_active(9, seconds)), (0, Change::default()));
    }
}

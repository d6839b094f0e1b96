//! State of rank 0 in a farm: tasks, workers, chunk sizes, results, the limit of the bytes between source and sink, and lost ranks.
//!
//! The state has no clock, no thread and no endpoint. Tasks and results are moved without being inspected.

use std::time::Duration;

use armature_planner::farm::{ChunkDone, Supply as Remaining};

use super::super::messages::{Attach, ChunkHeader, Lead, Payload, ResultHeader};
use super::super::options::Options;
use super::super::resequencer::Resequencer;
use super::super::summary::RankReport;
use super::super::traffic::{ENOUGH_BYTES, TrafficStats};
use super::super::window::{InFlight, Window};
use super::{
    Change, ChunkSizes, DeathRecords, Groups, OutstandingChunk, PendingTasks, Reserved, TaskTable, TaskTimes,
    WorkerState, WorkerTable,
};
use crate::tasks::Attempts;
use crate::wire::erased::Shape;

/// Data of a dispatched chunk that the master keeps until the results of the chunk have arrived.
#[derive(Clone, Debug)]
pub(crate) struct SentChunk {
    pub(crate) payload: Payload,
    pub(crate) count: u32,
    /// Worker whose speed determined the size of the chunk: a member if the chunk was sent to a sub-master, although another member may run the
    /// chunk.
    pub(crate) sized_for: usize,
}

/// Dispatched chunk whose results have not all arrived.
pub(crate) type Sent = OutstandingChunk<SentChunk>;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// The rank gets tasks, as a worker or a sub-master.
    Works,
    /// The rank has to be parked (gets no tasks): enough other ranks run tasks.
    Parked,
    /// The rank has joined before, for example as a member of a sub-master.
    Again,
}

#[derive(Debug)]
pub(crate) struct MasterState {
    pub(crate) tasks: TaskTable<SentChunk>,
    pub(crate) results: Resequencer,
    pub(crate) window: Window,
    pub(crate) groups: Groups,
    pub(crate) traffic: TrafficStats,
    pub(crate) sizes: ChunkSizes,
    pub(crate) task_times: TaskTimes,
    request_ahead: Option<u32>,
    pub(crate) computes: bool,
    pub(crate) reports: Vec<RankReport>,
    pub(crate) lost: Vec<usize>,
    pub(crate) deaths: DeathRecords,
    /// Number and bytes of the results that the sink could receive now (no earlier result is missing) and has not received.
    pub(crate) undelivered: (u64, u64),
    pub(crate) died_of: Vec<u64>,
    pub(crate) stopped: bool,
    pub(crate) ending: bool,
    pub(crate) known: u64,
    pub(crate) started_with: usize,
}

impl MasterState {
    pub(crate) fn expect_speeds(&mut self, speeds: &[f64]) {
        self.sizes.expect_speeds(speeds);
    }

    /// Creates the state for `size` ranks, of which those in `lost` are dead. Tasks and results, whose sizes in memory are given, may
    /// take `window_bytes` bytes in flight.
    pub(crate) fn new(
        (size, lost): (usize, &[usize]),
        computes: bool,
        options: &Options,
        window_bytes: usize,
        [task, result]: [Shape; 2],
    ) -> Self {
        let mut tasks = TaskTable::new(size, options.retries);
        lost.iter().for_each(|&rank| tasks.workers_mut().set(rank, WorkerState::Dead));
        let all = (usize::from(!computes)..size).filter(|rank| !lost.contains(rank)).count();
        let started_with = options.workers.map_or(all, |n| n.clamp(1, all.max(1)));
        if options.workers.is_some() {
            tasks.set_target(started_with);
        }
        MasterState {
            tasks,
            results: Resequencer::new(options.ordered),
            window: Window::new(window_bytes, [task, result]),
            groups: Groups::default(),
            traffic: TrafficStats::new(task.size, result.size),
            sizes: ChunkSizes::new(options.chunking, computes),
            task_times: TaskTimes::new(size),
            request_ahead: options.ahead,
            computes,
            reports: vec![RankReport::default(); size],
            lost: Vec::new(),
            deaths: DeathRecords::default(),
            undelivered: (0, 0),
            died_of: Vec::new(),
            stopped: false,
            ending: false,
            known: 0,
            started_with,
        }
    }

    pub(crate) fn workers(&self) -> &WorkerTable {
        self.tasks.workers()
    }

    /// Starts a stream or a set of tasks. `left` is the number of tasks in the source, and true if the number is exact.
    pub(crate) fn begin(&mut self, left: (u64, bool), now: Duration) {
        self.results.restart();
        self.deaths.clear();
        let workers = self.tasks.workers();
        let states = [WorkerState::Active, WorkerState::Expected, WorkerState::Delegated];
        let takes_part = |r: &usize| states.contains(&workers.state_of(*r)) && !self.groups.is_leader(*r);
        let all = (usize::from(!self.computes)..self.reports.len()).filter(takes_part);
        let workers: Vec<usize> = all.take(self.tasks.target()).collect();
        let left = match left {
            (left, true) => Remaining::Exactly(left),
            (least, false) => Remaining::AtLeast(least),
        };
        self.update_knowledge(None, now);
        self.sizes.begin(left, &workers);
    }

    pub(crate) fn set_remaining(&mut self, (left, exact): (u64, bool)) {
        if exact {
            self.sizes.set_remaining(left + self.tasks.waiting());
        }
    }

    /// Returns the number of tasks that no rank holds; `None` if `exact` is false, because the number of tasks in the source (`left`)
    /// is not certain.
    pub(crate) fn unassigned(&self, (left, exact): (u64, bool)) -> Option<u64> {
        exact.then_some(left + self.tasks.waiting())
    }

    pub(crate) fn update_knowledge(&mut self, left: Option<u64>, now: Duration) {
        let ahead = self.ahead(left);
        let most_tasks = self.most_tasks();
        self.tasks.workers_mut().set_most_tasks(most_tasks);
        self.sizes.update(&self.traffic, self.groups.len(), ahead, now);
    }

    /// Returns the maximum number of tasks in a chunk. A chunk size policy that the user has chosen is not limited.
    pub(crate) fn max_chunk(&self) -> u64 {
        if self.sizes.is_automatic() { self.traffic.enough() } else { u64::MAX }
    }

    /// Returns the maximum number of bytes of the tasks that are drawn for one chunk, as a protection against tasks that are larger than expected.
    /// The size of a task is that in memory, which exceeds its encoded size.
    pub(crate) fn max_bytes(&self) -> u64 {
        let chunk = if self.sizes.is_automatic() { 4 * ENOUGH_BYTES as u64 } else { u64::MAX };
        chunk.min(self.window.bytes_left(self.in_flight()))
    }

    pub(crate) fn ahead(&self, left: Option<u64>) -> f64 {
        self.request_ahead.map_or_else(|| self.traffic.ahead(left, self.sharers()), f64::from)
    }

    /// Returns the number of tasks above which a worker gets no further chunk.
    pub(crate) fn most_tasks(&self) -> u32 {
        self.request_ahead.map_or_else(|| self.traffic.most_tasks(), |_| u32::MAX)
    }

    /// Returns the number of workers that share the tasks. Workers that have not joined yet count, so that tasks are left for them.
    fn sharers(&self) -> usize {
        self.workers().capacity().max(self.sizes.workers())
    }

    /// Returns true if rank 0 may take a chunk for itself. It takes a second chunk only if enough tasks are left for the other
    /// workers.
    pub(crate) fn rank_0_may_take(&self, left: Option<u64>) -> bool {
        self.workers().held(0) == 0 || self.traffic.spares_another(left, self.sharers())
    }

    /// Returns the number of new tasks, at most `most`, for the next chunk of `worker`, and the worker for whose speed the number was chosen:
    /// `sized_for`, or the worker of an earlier choice for which the source had no tasks then. Returns `None` if `worker` gets no chunk now: at the
    /// limit of bytes between the source and the sink, while the size of tasks is not known, or while another worker waits for tasks of the source.
    pub(crate) fn size_of_next(
        &mut self,
        worker: usize,
        sized_for: usize,
        most: u64,
    ) -> Option<(u64, usize)> {
        if let Some(Reserved { worker: first, sized_for, size }) = self.sizes.take_reserved() {
            if first == worker && size <= most {
                return Some((size, sized_for));
            }
            if first != worker && self.still_waits(first) {
                self.sizes.reserve(first, sized_for, size);
                return None;
            }
            self.sizes.return_tasks(size);
        }
        let room = self.window.room(self.in_flight());
        // Until the sizes of tasks and results are known, each worker holds at most one task, so that the limit of bytes between the source and the
        // sink is not exceeded.
        let holds_some = !self.window.is_sure() && self.workers().room(worker, 0.0) == 0;
        if room == 0 || holds_some {
            return None;
        }
        Some((self.sizes.next(sized_for, most.min(room)), sized_for))
    }

    /// Drops the choice of a chunk size for a worker that gets no tasks any more; otherwise other workers would wait for the tasks of
    /// that chunk.
    pub(crate) fn drop_reserved(&mut self, worker: usize) {
        match self.sizes.take_reserved() {
            Some(Reserved { worker: first, size, .. }) if first == worker => self.sizes.return_tasks(size),
            Some(Reserved { worker: first, sized_for, size }) => self.sizes.reserve(first, sized_for, size),
            None => {}
        }
    }

    fn still_waits(&self, worker: usize) -> bool {
        let ahead = if worker == 0 { 0.0 } else { self.sizes.ahead() };
        self.workers().state_of(worker) == WorkerState::Active && self.workers().room(worker, ahead) > 0
    }

    /// Takes requeued tasks that `worker` may run: as many as suit the speed of the worker `sized_for`, and at most `most`.
    pub(crate) fn take_requeued(
        &mut self,
        worker: usize,
        sized_for: usize,
        most: u64,
    ) -> Option<PendingTasks> {
        if self.tasks.waiting() == 0 {
            return None;
        }
        let size = self.sizes.next(sized_for, most);
        let pending = self.tasks.take_requeued(worker, size);
        let taken = pending.as_ref().map_or(0, |pending| pending.tasks.len() as u64);
        self.sizes.return_tasks(size - taken);
        pending
    }

    pub(crate) fn requeue(&mut self, pending: PendingTasks) {
        self.sizes.return_tasks(pending.tasks.len() as u64);
        self.tasks.requeue(pending);
    }

    pub(crate) fn in_flight(&self) -> InFlight {
        let (out, back) = (self.tasks.out(), self.tasks.waiting());
        InFlight { out, back, early: self.results.early_bytes(), due: self.undelivered }
    }

    pub(crate) fn header_of(&self, pending: &PendingTasks) -> ChunkHeader {
        let PendingTasks { first, attempts, .. } = *pending;
        let end = first + pending.tasks.len() as u64;
        let suspect = self.deaths.are_suspect(first..end);
        let (id, count) = (self.tasks.next_id(), pending.tasks.len() as u32);
        let (attempt, alone) = (attempts.failed, attempts.is_suspect());
        ChunkHeader { id, first, count, skip: 0, attempt, suspect, alone }
    }

    pub(crate) fn record_dispatch(
        &mut self,
        (worker, sized_for): (usize, usize),
        (header, attempts): (ChunkHeader, Attempts),
        payload: Payload,
        now: Duration,
    ) {
        let ChunkHeader { first, count, .. } = header;
        self.window.dispatched(count.into(), payload.len());
        self.tasks.dispatch(worker, (first, count), attempts, SentChunk { payload, count, sized_for }, now);
    }

    /// Records a result that the rank `by` has computed and `worker` has sent to rank 0. Returns the value of [`TaskTable::done`].
    pub(crate) fn take_result(
        &mut self,
        [worker, by]: [usize; 2],
        done: &ResultHeader,
        now: Duration,
    ) -> Option<(Sent, bool)> {
        self.task_times.result([worker, by], (done.count, done.times.sum), now);
        let superseded = self.tasks.superseded(worker, done.id);
        let taken = self.tasks.done(worker, done.id, done.count);
        if let Some(given) = superseded {
            // The run time that a result reports is recorded even if the same result has arrived from another copy of the chunk.
            let is_last = done.count >= given.count;
            self.count_result(done, by, (&given, is_last), now);
            if is_last {
                self.window_returns(&given);
            }
        }
        let (outstanding, is_last) = taken?;
        if is_last {
            self.window_returns(&outstanding);
        }
        Some((outstanding, is_last))
    }

    /// Releases the bytes of a chunk within the limit of bytes between the source and the sink. A second copy of a chunk shares the
    /// encoded tasks with the original, so it occupies none.
    pub(super) fn window_returns(&mut self, chunk: &Sent) {
        if !chunk.is_copy {
            self.window.returned(chunk.kept.payload.len());
        }
    }

    /// Counts a result that the rank `by` has computed. `is_last` is true if the result completes its chunk.
    pub(crate) fn count_result(
        &mut self,
        done: &ResultHeader,
        by: usize,
        (outstanding, is_last): (&Sent, bool),
        now: Duration,
    ) {
        self.reports[by].add(done.count, done.times.sum, is_last);
        let elapsed = now.saturating_sub(outstanding.since);
        // No round trip is measured if a sub-master forwards the result, because the result then waits for further results.
        if outstanding.alone && by != 0 && by == outstanding.worker {
            self.traffic.exchanged(elapsed.saturating_sub(done.times.took));
        }
        let (sum, squares, elapsed) = (done.times.sum, done.times.squares, elapsed.as_secs_f64());
        let (worker, tasks) = (outstanding.kept.sized_for, done.count.into());
        self.sizes.done(&ChunkDone { worker, tasks, sum, squares, elapsed }, is_last);
    }

    pub(crate) fn join(&mut self, rank: usize, warm_up: Duration) -> Joined {
        self.reports[rank].warm_up = warm_up;
        if self.workers().state_of(rank) != WorkerState::Expected {
            return Joined::Again;
        }
        // Rank 0 counts as a rank that runs tasks even before its own worker (user code) is created.
        let expected = self.computes && self.workers().state_of(0) == WorkerState::Expected;
        if !self.tasks.join(rank, expected.into()) {
            self.sizes.leave(rank);
            return Joined::Parked;
        }
        // A sub-master runs no tasks, so the policy for chunk sizes does not know it.
        if !self.groups.is_leader(rank) {
            self.sizes.join(rank);
        }
        Joined::Works
    }

    /// Parks ranks (which then get no tasks) and wakes ranks, until as many run tasks as were decided. Returns the ranks to be
    /// notified.
    pub(crate) fn adjust_workers(&mut self) -> Change {
        if self.ending {
            return Change::default();
        }
        let reports = &self.reports;
        let seconds = |rank: usize| {
            let done = &reports[rank];
            (done.tasks > 0).then(|| done.busy.as_secs_f64() / done.tasks as f64)
        };
        let change = self.tasks.adjust_active(seconds);
        change.parked.iter().for_each(|&rank| self.sizes.leave(rank));
        change.woken.iter().for_each(|&rank| self.sizes.join(rank));
        change
    }

    pub(crate) fn splittable(&self) -> Vec<usize> {
        let takes_part = |&r: &usize| {
            let state = self.workers().state_of(r);
            matches!(state, WorkerState::Active | WorkerState::Parked | WorkerState::Expected)
        };
        (1..self.reports.len()).filter(takes_part).collect()
    }

    /// Divides `ranks` into `count` groups. The first rank of each group becomes a sub-master and runs no more tasks. Returns the
    /// orders for them.
    pub(crate) fn split(&mut self, ranks: &[usize], count: usize) -> Vec<(usize, Lead)> {
        let orders = self.groups.split(self.tasks.workers_mut(), ranks, count);
        orders.iter().for_each(|&(leader, _)| self.sizes.leave(leader));
        orders
    }

    /// Returns true if the result of this task from the journal fits into the limit of bytes between the source and the sink.
    pub(crate) fn may_replay(&self, task: u64) -> bool {
        let at_once = self.results.is_due(task) && self.undelivered.0 == 0;
        at_once || self.window.room(self.in_flight()) > 0
    }

    pub(crate) fn next_member(&mut self, leader: usize) -> Option<usize> {
        self.groups.next_member(self.tasks.workers(), leader)
    }

    pub(crate) fn adopt(&mut self, leader: usize) -> Vec<(usize, Attach)> {
        self.groups.adopt(self.tasks.workers_mut(), leader)
    }

    pub(crate) fn dissolve(&mut self) -> Vec<usize> {
        self.groups.dissolve(self.tasks.workers_mut())
    }

    pub(crate) fn take_deserted(&mut self) -> Vec<usize> {
        let MasterState { groups, tasks, .. } = self;
        groups.take_deserted(|rank| tasks.workers().is_ignored(rank))
    }

    /// Returns true if rank 0 neither needs nor expects a message of this rank any more.
    pub(crate) fn is_ignored(&self, rank: usize) -> bool {
        self.workers().is_ignored(rank)
    }
}

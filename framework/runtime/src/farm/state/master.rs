//! What rank 0 knows and decides: tasks, workers, sizes of chunks, results, window, losses.
//!
//! No clock, no thread, no endpoint. Of tasks and results nothing is looked at; they are moved.

use std::time::Duration;

use armature_planner::farm::{ChunkDone, Supply as Remaining};

use super::super::messages::{Attach, ChunkHeader, Lead, Payload, ResultHeader};
use super::super::options::Options;
use super::super::resequencer::Resequencer;
use super::super::summary::RankReport;
use super::super::traffic::{ENOUGH_BYTES, TrafficStats};
use super::super::window::{InFlight, Window};
use super::{
    Change, ChunkSizes, DeathRecords, Groups, OutstandingChunk, PendingTasks, Reserved, Suspicion, TaskTable,
    WorkerState, WorkerTable,
};

/// What is kept of a chunk that was handed out.
#[derive(Clone, Debug)]
pub(crate) struct SentChunk {
    pub(crate) payload: Payload,
    /// Tasks in it.
    pub(crate) count: u32,
    /// The worker for which its size was made. Which member of a sub-master does it, the policies cannot know.
    pub(crate) sized_for: usize,
}

/// A chunk of the master.
pub(crate) type Sent = OutstandingChunk<SentChunk>;

/// Whether a rank that has come does tasks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Joined {
    /// It does, or leads others.
    Works,
    /// It is to be parked.
    Parked,
    /// It had come before.
    Again,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct MasterState<I, O> {
    pub(crate) tasks: TaskTable<I, SentChunk>,
    pub(crate) results: Resequencer<O>,
    pub(crate) window: Window,
    pub(crate) groups: Groups,
    pub(crate) traffic: TrafficStats,
    pub(crate) sizes: ChunkSizes,
    /// Chunks that a worker may hold beyond the one that it computes, if the user has said so.
    request_ahead: Option<u32>,
    /// Whether rank 0 does tasks, too.
    pub(crate) computes: bool,
    pub(crate) reports: Vec<RankReport>,
    pub(crate) lost: Vec<usize>,
    /// Ranks that have died over tasks, or fallen silent, in this set of tasks.
    pub(super) deaths: DeathRecords,
    /// Tasks and bytes of results that are due and not at the sink yet.
    pub(crate) undelivered: (u64, u64),
    /// Tasks that have failed because ranks died in them.
    pub(crate) died_of: Vec<u64>,
    /// The sink wants no more.
    pub(crate) stopped: bool,
    /// The workers have been told to leave.
    pub(crate) ending: bool,
    /// Tasks whose results came from the journal.
    pub(crate) known: u64,
    /// Ranks that were to do tasks at the start.
    pub(crate) started_with: usize,
}

impl<I, O> MasterState<I, O> {
    /// The state at the beginning among `size` ranks without those that are `lost`. Tasks and results may take
    /// `window_bytes` bytes.
    pub(crate) fn new(
        (size, lost): (usize, &[usize]),
        computes: bool,
        options: &Options,
        window_bytes: usize,
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
            window: Window::new::<I, O>(window_bytes),
            groups: Groups::default(),
            traffic: TrafficStats::new(size_of::<I>(), size_of::<O>()),
            sizes: ChunkSizes::new(options.chunking, computes),
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

    /// A stream, or a set of tasks, begins, of which the source has `left`.
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

    /// The source has `left` tasks, of which the policies hear if the number is certain.
    pub(crate) fn set_remaining(&mut self, (left, exact): (u64, bool)) {
        if exact {
            self.sizes.set_remaining(left + self.tasks.waiting());
        }
    }

    /// Tasks that nobody has, where the source has `left`; `None` if that is not certain.
    pub(crate) fn unassigned(&self, (left, exact): (u64, bool)) -> Option<u64> {
        exact.then_some(left + self.tasks.waiting())
    }

    /// Brings what the policies know up to date.
    pub(crate) fn update_knowledge(&mut self, left: Option<u64>, now: Duration) {
        let ahead = self.ahead(left);
        self.sizes.update(&self.traffic, self.groups.len(), ahead, now);
    }

    /// Tasks that a chunk should have at most. A policy that was asked for is followed to the message.
    pub(crate) fn max_chunk(&self) -> u64 {
        if self.sizes.is_automatic() { self.traffic.enough() } else { u64::MAX }
    }

    /// Bytes of tasks beyond which no more are drawn for a chunk, where they turn out to be larger than expected: as they are
    /// in memory, which is more than on the wire.
    pub(crate) fn max_bytes(&self) -> u64 {
        let chunk = if self.sizes.is_automatic() { 4 * ENOUGH_BYTES as u64 } else { u64::MAX };
        chunk.min(self.window.bytes_left(self.in_flight()))
    }

    /// Chunks that a worker may hold beyond the one that it computes.
    pub(crate) fn ahead(&self, left: Option<u64>) -> u32 {
        self.request_ahead.unwrap_or_else(|| self.traffic.ahead(left, self.sharers()))
    }

    /// Workers among whom the tasks are shared, those included that have not come to the farm yet: they shall find their share.
    fn sharers(&self) -> usize {
        self.workers().capacity().max(self.sizes.workers())
    }

    /// Whether rank 0 may take a chunk for itself: another one only if the others do not go short.
    pub(crate) fn rank_0_may_take(&self, left: Option<u64>) -> bool {
        self.workers().held(0) == 0 || self.traffic.spares_another(left, self.sharers())
    }

    /// How many new tasks `worker` may be given, at most `most`, in a chunk for the worker `sized_for`, and for whom they are
    /// then. `None` if it must wait: for room in the window, for sizes to be known, or for somebody before it.
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
            self.sizes.give_back(size);
        }
        let room = self.window.room(self.in_flight());
        // As long as sizes are not known, each worker has one task.
        let holds_some = !self.window.is_sure() && self.workers().room(worker, 0) == 0;
        if room == 0 || holds_some {
            return None;
        }
        Some((self.sizes.next(sized_for, most.min(room)), sized_for))
    }

    fn still_waits(&self, worker: usize) -> bool {
        let ahead = if worker == 0 { 0 } else { self.sizes.ahead() };
        self.workers().state_of(worker) == WorkerState::Active && self.workers().room(worker, ahead) > 0
    }

    /// Some tasks that came back, for `worker`.
    pub(crate) fn take_requeued(
        &mut self,
        worker: usize,
        sized_for: usize,
        most: u64,
    ) -> Option<PendingTasks<I>> {
        if self.tasks.waiting() == 0 {
            return None;
        }
        let size = self.sizes.next(sized_for, most);
        let pending = self.tasks.take_requeued(worker, size);
        let taken = pending.as_ref().map_or(0, |pending| pending.tasks.len() as u64);
        self.sizes.give_back(size - taken);
        pending
    }

    /// Tasks wait to be handed out again.
    pub(crate) fn requeue(&mut self, pending: PendingTasks<I>) {
        self.sizes.give_back(pending.tasks.len() as u64);
        self.tasks.put_back(pending);
    }

    /// Tasks between the source and the sink.
    pub(crate) fn in_flight(&self) -> InFlight {
        let (out, back) = (self.tasks.out(), self.tasks.waiting());
        InFlight { out, back, early: self.results.early_bytes(), due: self.undelivered }
    }

    /// The header of a chunk with these tasks.
    pub(crate) fn header_of(&self, pending: &PendingTasks<I>) -> ChunkHeader {
        let PendingTasks { first, attempt, suspicion, .. } = *pending;
        let end = first + pending.tasks.len() as u64;
        let suspect = self.deaths.are_suspect(first..end);
        let (id, count) = (self.tasks.next_id(), pending.tasks.len() as u32);
        ChunkHeader { id, first, count, skip: 0, attempt, suspect, alone: suspicion.is_there() }
    }

    /// A chunk is `worker`'s from now on.
    pub(crate) fn hand_out(
        &mut self,
        worker: usize,
        header: ChunkHeader,
        suspicion: Suspicion,
        sent: SentChunk,
        now: Duration,
    ) {
        let ChunkHeader { first, count, attempt, .. } = header;
        self.window.gave(count.into(), sent.payload.len());
        self.tasks.give(worker, (first, count), (attempt, suspicion), sent, now);
    }

    /// A result of the next `count` tasks of a chunk has come from `worker`. Returns what [`TaskTable::done`] does.
    pub(crate) fn take_result(&mut self, worker: usize, id: u64, count: u32) -> Option<(Sent, bool)> {
        let (given, is_last) = self.tasks.done(worker, id, count)?;
        if is_last {
            self.window.returned(given.kept.payload.len());
        }
        Some((given, is_last))
    }

    /// Counts what rank `by` has done: some tasks of a chunk, perhaps the last ones.
    pub(crate) fn count_result(
        &mut self,
        done: &ResultHeader,
        by: usize,
        (given, is_last): (&Sent, bool),
        now: Duration,
    ) {
        self.reports[by].add(done.count, done.times.sum, is_last);
        let elapsed = now.saturating_sub(given.since);
        // Results of a sub-master's members lie there until there are more.
        if given.alone && by != 0 && by == given.worker {
            self.traffic.exchanged(elapsed.saturating_sub(done.times.took));
        }
        let (sum, squares, elapsed) = (done.times.sum, done.times.squares, elapsed.as_secs_f64());
        let (worker, tasks) = (given.kept.sized_for, done.count.into());
        self.sizes.done(&ChunkDone { worker, tasks, sum, squares, elapsed }, is_last);
    }

    /// A rank has come to the farm. `warm_up` is the time in which its worker was made.
    pub(crate) fn join(&mut self, rank: usize, warm_up: Duration) -> Joined {
        self.reports[rank].warm_up = warm_up;
        if self.workers().state_of(rank) != WorkerState::Expected {
            return Joined::Again;
        }
        // Rank 0 is counted before its own worker is made.
        let expected = self.computes && self.workers().state_of(0) == WorkerState::Expected;
        if !self.tasks.join(rank, expected.into()) {
            self.sizes.leave(rank);
            return Joined::Parked;
        }
        // A sub-master does no tasks.
        if !self.groups.is_leader(rank) {
            self.sizes.join(rank);
        }
        Joined::Works
    }

    /// Parks and wakes ranks so that as many work as are to. Returns who is to be told.
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

    /// The ranks that can be put under sub-masters.
    pub(crate) fn splittable(&self) -> Vec<usize> {
        let takes_part = |&r: &usize| {
            let state = self.workers().state_of(r);
            matches!(state, WorkerState::Active | WorkerState::Parked | WorkerState::Expected)
        };
        (1..self.reports.len()).filter(takes_part).collect()
    }

    /// Puts `ranks` under `count` of them, which do no tasks from then on. Returns the orders.
    pub(crate) fn split(&mut self, ranks: &[usize], count: usize) -> Vec<(usize, Lead)> {
        let orders = self.groups.split(self.tasks.workers_mut(), ranks, count);
        orders.iter().for_each(|&(leader, _)| self.sizes.leave(leader));
        orders
    }

    /// Whether a known result of this task may go on its way to the sink.
    pub(crate) fn may_replay(&self, task: u64) -> bool {
        let at_once = self.results.is_due(task) && self.undelivered.0 == 0;
        at_once || self.window.room(self.in_flight()) > 0
    }

    /// The member of `leader` for whom the next chunk is made.
    pub(crate) fn next_member(&mut self, leader: usize) -> Option<usize> {
        self.groups.next_member(self.tasks.workers(), leader)
    }

    /// The members of a lost sub-master are rank 0's own from now on. Returns the orders that tell them.
    pub(crate) fn adopt(&mut self, leader: usize) -> Vec<(usize, Attach)> {
        self.groups.adopt(self.tasks.workers_mut(), leader)
    }

    /// The run ends. Returns the members of sub-masters, which lead nobody any more.
    pub(crate) fn dissolve(&mut self) -> Vec<usize> {
        self.groups.dissolve(self.tasks.workers_mut())
    }

    /// Takes the sub-masters out whose members have all gone.
    pub(crate) fn take_deserted(&mut self) -> Vec<usize> {
        let MasterState { groups, tasks, .. } = self;
        groups.take_deserted(|rank| tasks.workers().is_gone(rank))
    }

    /// Nothing is wanted, or to be expected, of this rank any more.
    pub(crate) fn is_gone(&self, rank: usize) -> bool {
        self.workers().is_gone(rank)
    }
}

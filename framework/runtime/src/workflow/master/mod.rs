//! What rank 0 knows of a workflow's run: what has become of each task, where its value is, which rank has which orders. Pure: no
//! clock, no thread; the orders come out of it. `README.md` beside the workflow's module has the protocol.

mod announcements;
mod failures;
mod limits;
mod losses;
mod memory;
mod orders;
mod plans;
mod pools;
mod recalls;
mod replanning;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::failed_task::FailedTask;
use super::forecast::Sample;
use super::graph::Graph;
use super::messages::{Done, Orders, Report};
use super::summary::Measured;
use crate::error::Result;
use crate::rank::suspicion::Suspicion;
use limits::Limits;
pub(super) use losses::LastTask;
use pools::Pools;
use replanning::Replanning;
pub(super) use replanning::{Cause, Change};

/// What has become of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It is to be run.
    Waiting,
    /// A rank is to run it, or does.
    Ordered(usize),
    /// It has been done, and a rank has what it gives.
    Done(usize),
    /// It has been done, and nobody needs what it gives any more.
    Gone,
    /// It has failed at every try.
    Failed,
    /// A task that it depends on has failed.
    Skipped,
}

impl State {
    /// Whether its value is made, or will be where it is ordered.
    fn is_placed(self) -> bool {
        matches!(self, State::Ordered(_) | State::Done(_))
    }
}

#[derive(Clone, Debug)]
struct Task {
    state: State,
    /// How often it has failed.
    attempt: u32,
    /// How often it has held more memory than it may.
    exceeded: u32,
    /// Parents that are not done.
    undone: u32,
    /// Parents that are neither done nor ordered.
    unplaced: u32,
    /// Children that have not ended.
    readers: u32,
    /// Whether others have orders that wait for it, so that it is ordered at once.
    is_urgent: bool,
    /// The rank on which it failed last.
    failed_on: Option<usize>,
    /// Deaths of ranks that are put down to it.
    suspicion: Suspicion,
    /// Whether its rank has said that it has begun it, which is said of suspects.
    has_begun: bool,
    /// Bytes that it gives or will give, as they are counted at the rank that has them.
    counted: u64,
    /// The rank to which it is announced, until it is ordered.
    announced_to: Option<usize>,
    /// Whether it has been asked back for a rank that had too little to do. Once is enough: where it does not fit, it comes back.
    was_recalled: bool,
}

/// What is known of a rank.
#[derive(Debug, Default)]
struct Rank {
    is_lost: bool,
    /// Bytes that it may hold.
    memory: u64,
    /// Bytes of the values that were made there and are needed, and of those that its orders will give.
    values: u64,
    /// What it has and has not reported done.
    outstanding: BTreeSet<usize>,
    /// Tasks that are announced to it.
    announced: usize,
    /// What it is to be told.
    orders: Orders,
}

/// How many tasks a rank is given, at least, for each that it runs at once: that one, and one so that it need not wait.
const LEAST_AHEAD: usize = 2;
/// Nanoseconds of work that a rank is given ahead: so much longer than a message takes that it never waits, and so short that
/// nobody waits for it at the end.
const AHEAD: f64 = 2e6;
/// The most that a rank is given ahead: with tasks that take no time, more make the messages no cheaper.
const MOST_AHEAD: usize = 1024;

/// See the module's page.
#[derive(Debug)]
pub(super) struct Master {
    graph: Arc<Graph>,
    tasks: Vec<Task>,
    ranks: Vec<Rank>,
    pools: Pools,
    limits: Limits,
    /// Tasks that are to be ordered at once and wait for a limit.
    urgent: Vec<usize>,
    /// Tasks that have not ended.
    left: usize,
    max_failures: usize,
    /// How many tasks each rank runs at once.
    at_once: usize,
    failed: Vec<FailedTask>,
    /// Nanoseconds of tasks so far, and how many these are.
    took: (u64, u64),
    pub(super) retried: u64,
    pub(super) again: u64,
    pub(super) skipped: u64,
    /// Ranks that have died so far.
    deaths: u32,
    /// Tasks whose values were lost and are in the journal.
    to_restore: Vec<usize>,
    /// By task, where there is a journal: whether it is in it.
    journalled: Vec<bool>,
    /// By task: what was measured of it, and where, if it has been run.
    pub(super) measured: Vec<Option<Measured>>,
    /// Where there is a plan that may be made anew.
    replanning: Option<Replanning>,
    /// Tasks that have come to wait for a limit, with it, if somebody wants to know.
    held: Option<Vec<(usize, usize)>>,
}

impl Master {
    /// For `ranks` ranks, of which `lost` have died before. `max_failures` tasks may fail.
    pub(super) fn new(graph: Arc<Graph>, ranks: usize, lost: &[usize], max_failures: usize) -> Self {
        let task = |task| Task {
            state: State::Waiting,
            attempt: 0,
            exceeded: 0,
            undone: 0,
            unplaced: 0,
            readers: graph.children(task).len() as u32,
            is_urgent: false,
            failed_on: None,
            suspicion: Suspicion::default(),
            has_begun: false,
            counted: 0,
            announced_to: None,
            was_recalled: false,
        };
        let rank = |rank| Rank { is_lost: lost.contains(&rank), memory: u64::MAX, ..Rank::default() };
        Master {
            tasks: (0..graph.len()).map(task).collect(),
            ranks: (0..ranks).map(rank).collect(),
            pools: Pools::new(&graph, ranks),
            limits: Limits::new(graph.limits.clone()),
            urgent: Vec::new(),
            left: graph.len(),
            max_failures,
            at_once: 1,
            failed: Vec::new(),
            took: (0, 0),
            retried: 0,
            again: 0,
            skipped: 0,
            deaths: 0,
            to_restore: Vec::new(),
            journalled: vec![false; graph.len()],
            measured: vec![None; graph.len()],
            replanning: None,
            held: None,
            graph,
        }
    }

    /// From now on it is kept which tasks come to wait for limits.
    pub(super) fn note_held(&mut self) {
        self.held = Some(Vec::new());
    }

    /// Tasks that have come to wait for a limit, with it.
    pub(super) fn take_held(&mut self) -> Vec<(usize, usize)> {
        self.held.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Each rank runs `tasks` tasks at once.
    pub(super) fn run_several(&mut self, tasks: usize) {
        self.at_once = tasks.max(1);
    }

    /// How much each rank may hold.
    pub(super) fn has_memory(&mut self, memory: &[u64]) {
        self.ranks.iter_mut().zip(memory).for_each(|(rank, &memory)| rank.memory = memory);
    }

    /// A task that an earlier run has done; its value is on rank 0, if somebody needs it. To be called in an order in which tasks
    /// can be done, before [`begin`](Master::begin). Returns the tasks whose values nobody needs any more.
    pub(super) fn known(&mut self, task: usize) -> Vec<usize> {
        if self.tasks[task].state != State::Waiting {
            return Vec::new();
        }
        self.journalled[task] = true;
        self.tasks[task].state = State::Done(0);
        self.left -= 1;
        let mut gone = self.fewer_readers(task);
        if self.tasks[task].readers == 0 {
            self.tasks[task].state = State::Gone;
            gone.push(task);
        }
        gone
    }

    /// Begins: whatever can be ordered is.
    pub(super) fn begin(&mut self) {
        self.recount();
        self.fill();
    }

    /// Which rank is to run each task, as it is planned, and the sequence.
    pub(super) fn plan(&mut self, processor_of: &[usize], sequence: &[usize]) {
        self.take_announcements_back();
        self.pools.plan(&self.graph, processor_of, sequence);
    }

    /// Counts anew what tasks wait for, and puts those that can be ordered where they are ordered from.
    fn recount(&mut self) {
        self.pools.clear();
        self.limits.forget_waiting();
        let graph = self.graph.clone();
        for &task in graph.dag.topological_order() {
            let is_placed = |parent: usize| self.tasks[parent].state.is_placed();
            let is_done = |parent: usize| matches!(self.tasks[parent].state, State::Done(_));
            let unplaced = graph.parents(task).filter(|&parent| !is_placed(parent)).count() as u32;
            let undone = graph.parents(task).filter(|&parent| !is_done(parent)).count() as u32;
            (self.tasks[task].unplaced, self.tasks[task].undone) = (unplaced, undone);
            if self.tasks[task].state == State::Waiting {
                self.consider(task);
            }
        }
    }

    /// A rank has reported.
    ///
    /// # Errors
    /// More tasks have failed for good than may.
    pub(super) fn on_report(&mut self, rank: usize, report: Report) -> Result<()> {
        if self.ranks[rank].is_lost {
            return Ok(());
        }
        for done in report.done {
            self.on_done(rank, done);
        }
        for failure in report.failed {
            self.on_failed(rank, failure)?;
        }
        for task in report.returned {
            if self.tasks[task].state == State::Ordered(rank) {
                self.withdraw(task, rank);
                self.order_again(task);
            }
        }
        self.fill();
        Ok(())
    }

    fn on_done(&mut self, rank: usize, done: Done) {
        let task = done.task;
        if self.tasks[task].state != State::Ordered(rank) {
            return;
        }
        self.ranks[rank].outstanding.remove(&task);
        self.release(task);
        self.took = (self.took.0 + done.took, self.took.1 + 1);
        let run_time = Duration::from_nanos(done.took);
        self.measured[task] = Some(Measured { rank, run_time, peak_memory: done.peak_memory });
        if let Some(replanning) = &mut self.replanning {
            let Done { bytes, peak_memory: peak, .. } = done;
            replanning.forecast.on_done(Sample { task, rank, took: run_time.as_secs_f64(), bytes, peak });
        }
        self.left -= 1;
        self.tasks[task].state = State::Done(rank);
        self.tasks[task].suspicion = self.tasks[task].suspicion.without_shared();
        self.count(task, rank, done.bytes);
        let graph = self.graph.clone();
        for child in graph.children(task) {
            self.tasks[child].undone -= 1;
            if self.tasks[child].undone == 0 && self.tasks[child].state == State::Waiting {
                self.consider(child);
            }
        }
        if self.tasks[task].readers == 0 {
            self.drop_value(task);
        }
        self.fewer_readers(task);
    }

    /// A task has ended: it reads its inputs no more. Returns those that nobody reads any more.
    fn fewer_readers(&mut self, task: usize) -> Vec<usize> {
        let graph = self.graph.clone();
        let mut gone = Vec::new();
        for parent in graph.parents(task) {
            self.tasks[parent].readers -= 1;
            if self.tasks[parent].readers == 0 {
                self.drop_value(parent);
                gone.push(parent);
            }
        }
        gone
    }

    /// Nobody needs a value any more.
    fn drop_value(&mut self, task: usize) {
        if let State::Done(rank) = self.tasks[task].state {
            self.tasks[task].state = State::Gone;
            self.count(task, rank, 0);
            if !self.graph.is_final(task) {
                self.ranks[rank].orders.dropped.push(task);
            }
        }
    }

    /// What the task gives is in the journal.
    pub(super) fn has_journalled(&mut self, task: usize) {
        self.journalled[task] = true;
    }

    /// Whether a rank has died.
    pub(super) fn is_lost(&self, rank: usize) -> bool {
        self.ranks[rank].is_lost
    }

    /// Whether all tasks have ended.
    pub(super) fn is_over(&self) -> bool {
        self.left == 0
    }

    /// Tasks that have ended, and all.
    pub(super) fn progress(&self) -> (usize, usize) {
        (self.tasks.len() - self.left, self.tasks.len())
    }

    /// Seconds that the longest chain of tasks that have not ended takes, by the description's work and what that took so far; `None` before
    /// the first task has ended.
    pub(super) fn critical_path(&self) -> Option<f64> {
        let work: f64 = (0..self.tasks.len())
            .filter(|&task| self.measured[task].is_some())
            .map(|task| self.graph.dag.work(task))
            .sum();
        let mut levels = vec![0.0_f64; self.tasks.len()];
        for &task in self.graph.dag.topological_order().iter().rev() {
            if matches!(self.tasks[task].state, State::Waiting | State::Ordered(_)) {
                let below = self.graph.children(task).map(|child| levels[child]).fold(0.0, f64::max);
                levels[task] = below + self.graph.dag.work(task);
            }
        }
        let left = levels.into_iter().fold(0.0, f64::max);
        (work > 0.0).then(|| left * Duration::from_nanos(self.took.0).as_secs_f64() / work)
    }

    /// Whether a task is done.
    pub(super) fn is_done(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Done(_) | State::Gone)
    }

    /// Whether what a task gave is needed by others.
    pub(super) fn is_needed(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Done(_))
    }

    /// Tasks that failed for good.
    pub(super) fn failed(&self) -> &[FailedTask] {
        &self.failed
    }

    /// What each rank is to be told now.
    pub(super) fn take_orders(&mut self) -> impl Iterator<Item = (usize, Orders)> + '_ {
        let has_news = |(_, rank): &(usize, &mut Rank)| !rank.orders.is_empty() && !rank.is_lost;
        let ranks = self.ranks.iter_mut().enumerate().filter(has_news);
        ranks.map(|(rank, state)| (rank, std::mem::take(&mut state.orders)))
    }

    /// What the run waits for, in words.
    pub(super) fn waits_for(&self) -> String {
        let held = |(rank, state): (usize, &Rank)| {
            let first = state.outstanding.iter().next()?;
            Some(format!(
                "rank {rank} ({} tasks, among them {})",
                state.outstanding.len(),
                self.graph.dag.name(*first)
            ))
        };
        let ranks: Vec<String> = self.ranks.iter().enumerate().filter_map(held).collect();
        match ranks.is_empty() {
            true => format!("for nobody, with {} tasks left", self.left),
            false => format!("for {}; {} tasks left", ranks.join(", "), self.left),
        }
    }
}

//! State of a workflow's run on rank 0 (the master): the state of each task, the rank that holds its value, and the tasks dispatched to each rank.
//! The master has no clock and no thread; it produces orders, which its caller sends. `README.md` in the workflow's module describes the protocol.

mod failures;
mod losses;
mod orders;
#[cfg(test)]
mod orders_tests;
mod plans;
mod replanning;
mod supply;
mod time_left;
mod time_limit;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::forecast::Sample;
use super::graph::Graph;
use super::messages::{Exceeded, Orders, Report, TaskDone};
use super::summary::Measured;
use crate::error::Result;
use crate::failed_task::FailedTask;
use crate::tasks::{Attempts, Deaths};
use replanning::Replanning;
pub(super) use replanning::{Cause, Change};
use supply::Supply;
use time_left::TimeLeft;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Waiting,
    /// The task is dispatched to this rank, which may have begun it.
    Dispatched(usize),
    /// The task is done, and this rank holds its value.
    Done(usize),
    /// The task is done, and no other task needs its value any more.
    Dropped,
    Failed,
    /// The task is not run, because a task that it depends on has failed.
    Skipped,
}

impl State {
    fn is_placed(self) -> bool {
        matches!(self, State::Dispatched(_) | State::Done(_))
    }
}

#[derive(Clone, Debug)]
struct TaskRecord {
    state: State,
    attempts: Attempts,
    /// Number of tries of the task that exceeded their memory limit, and number of those that exceeded their time limit.
    exceeded: Exceeded,
    /// Number of the task's parents that are not done.
    undone: u32,
    /// Number of the task's parents that are neither done nor dispatched.
    unplaced: u32,
    /// Number of the task's children that have not ended and therefore still need its value.
    readers: u32,
    /// True if the task is dispatched before all others, in most cases because tasks that ranks already hold may wait for its value.
    is_urgent: bool,
    avoided_rank: Option<usize>,
    /// True if the rank to which the task is dispatched has reported that the task has begun. Ranks report this only for tasks that may have killed
    /// an earlier rank.
    has_started: bool,
    /// Bytes that the master counts for the value of the task on its rank: the expected size while the task is dispatched, the real size when it is
    /// done.
    counted: u64,
    /// Rank to which the task is announced (the rank knows that it will run the task), until it is dispatched.
    announced_to: Option<usize>,
    /// True if the master has asked the task's rank to return it, for an idle rank. This is done once per task, because the task may be dispatched
    /// to the same rank again.
    was_recalled: bool,
}

#[derive(Debug, Default)]
struct Rank {
    is_lost: bool,
    /// Maximum number of bytes that task values and running tasks may occupy on the rank.
    memory: u64,
    /// Bytes of the values that were computed on the rank and are still needed, plus the expected bytes of the values of tasks dispatched to it.
    values: u64,
    outstanding: BTreeSet<usize>,
    /// Number of tasks that are announced to the rank (the rank knows that it will run them) and not dispatched.
    announced: usize,
    /// Orders of the master that have not been sent to the rank yet: tasks to run, to return or to cancel.
    orders: Orders,
}

/// Divisor of the memory of a rank: if more than this part is in use, the rank gets tasks that free memory first. With a larger divisor ranks would
/// read values of other ranks long before memory is short; with a smaller one too little memory would be left for inputs from other ranks.
const FULL_PART: u64 = 2;

impl Rank {
    fn is_short_of_memory(&self) -> bool {
        self.values >= (self.memory / FULL_PART).max(1)
    }
}

#[derive(Debug)]
pub(super) struct Master {
    graph: Arc<Graph>,
    tasks: Vec<TaskRecord>,
    ranks: Vec<Rank>,
    pub(super) supply: Supply,
    /// Number of tasks that have not ended.
    left: usize,
    max_failures: usize,
    /// Number of tasks that each rank runs at the same time.
    at_once: usize,
    failed: Vec<FailedTask>,
    /// Sum of the run times of completed tasks in nanoseconds, and the number of completed tasks.
    took: (u64, u64),
    pub(super) retried: u64,
    pub(super) again: u64,
    pub(super) skipped: u64,
    /// True if the job was asked to stop. Then no further task is dispatched.
    is_stopping: bool,
    deaths: Deaths,
    /// Tasks whose values were on a dead rank and have to be restored on rank 0.
    to_restore: Vec<usize>,
    /// By task: true if rank 0 has the task's value in the journal, or the output files of its command, so that the death of another rank does not
    /// lose the result.
    journalled: Vec<bool>,
    /// By task: run time and memory of the completed try; `None` if the task was not run.
    pub(super) measured: Vec<Option<Measured>>,
    replanning: Option<Replanning>,
    time_left: Option<TimeLeft>,
}

impl Master {
    pub(super) fn new(graph: Arc<Graph>, ranks: usize, lost: &[usize], max_failures: usize) -> Self {
        let task = |task| TaskRecord {
            state: State::Waiting,
            attempts: Attempts::default(),
            exceeded: Exceeded::default(),
            undone: 0,
            unplaced: 0,
            readers: graph.children(task).len() as u32,
            is_urgent: false,
            avoided_rank: None,
            has_started: false,
            counted: 0,
            announced_to: None,
            was_recalled: false,
        };
        let rank = |rank| Rank { is_lost: lost.contains(&rank), memory: u64::MAX, ..Rank::default() };
        Master {
            tasks: (0..graph.len()).map(task).collect(),
            ranks: (0..ranks).map(rank).collect(),
            supply: Supply::new(&graph, ranks),
            left: graph.len(),
            max_failures,
            at_once: 1,
            failed: Vec::new(),
            took: (0, 0),
            retried: 0,
            again: 0,
            skipped: 0,
            is_stopping: false,
            deaths: Deaths::default(),
            to_restore: Vec::new(),
            journalled: vec![false; graph.len()],
            measured: vec![None; graph.len()],
            replanning: None,
            time_left: None,
            graph,
        }
    }

    pub(super) fn run_several(&mut self, tasks: usize) {
        self.at_once = tasks.max(1);
    }

    pub(super) fn has_memory(&mut self, memory: &[u64]) {
        self.ranks.iter_mut().zip(memory).for_each(|(rank, &memory)| rank.memory = memory);
    }

    /// Marks a task as done by an earlier run. Its value is on rank 0 if a task of this run needs it. Has to be called in a topological order of
    /// the tasks, before [`begin`](Master::begin). Returns the tasks whose values are not needed any more.
    pub(super) fn known(&mut self, task: usize) -> Vec<usize> {
        if self.tasks[task].state != State::Waiting {
            return Vec::new();
        }
        self.journalled[task] = true;
        self.tasks[task].state = State::Done(0);
        self.left -= 1;
        let mut unneeded = self.fewer_readers(task);
        if self.tasks[task].readers == 0 {
            self.tasks[task].state = State::Dropped;
            unneeded.push(task);
        }
        unneeded
    }

    pub(super) fn begin(&mut self) {
        self.recount();
        self.fill();
    }

    pub(super) fn plan(&mut self, processor_of: &[usize], sequence: &[usize]) {
        self.take_announcements_back();
        self.supply.plan(&self.graph, processor_of, sequence);
    }

    /// Recounts, for each task, the parents that are not done and those that are not dispatched, and collects again the tasks that can be dispatched.
    fn recount(&mut self) {
        self.supply.clear();
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

    /// Handles a report of a rank.
    ///
    /// # Errors
    /// More tasks have failed for good than allowed.
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
            if self.tasks[task].state == State::Dispatched(rank) {
                self.withdraw(task, rank);
                self.order_again(task);
            }
        }
        self.fill();
        Ok(())
    }

    fn on_done(&mut self, rank: usize, done: TaskDone) {
        let task = done.task;
        if self.tasks[task].state != State::Dispatched(rank) {
            return;
        }
        self.ranks[rank].outstanding.remove(&task);
        self.release(task);
        self.took = (self.took.0 + done.took, self.took.1 + 1);
        let run_time = Duration::from_nanos(done.took);
        self.count_time(task, run_time);
        self.measured[task] = Some(Measured { rank, run_time, peak_memory: done.peak_memory });
        if let Some(replanning) = &mut self.replanning {
            let TaskDone { bytes, peak_memory: peak, .. } = done;
            replanning.forecast.on_done(Sample { task, rank, took: run_time.as_secs_f64(), bytes, peak });
        }
        self.left -= 1;
        self.tasks[task].state = State::Done(rank);
        self.tasks[task].attempts.clear_shared();
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

    /// Decrements the number of readers of each parent of a task that has ended. Returns the parents whose values no task needs any more.
    fn fewer_readers(&mut self, task: usize) -> Vec<usize> {
        let graph = self.graph.clone();
        let mut unneeded = Vec::new();
        for parent in graph.parents(task) {
            self.tasks[parent].readers -= 1;
            if self.tasks[parent].readers == 0 {
                self.drop_value(parent);
                unneeded.push(parent);
            }
        }
        unneeded
    }

    fn drop_value(&mut self, task: usize) {
        if let State::Done(rank) = self.tasks[task].state {
            self.tasks[task].state = State::Dropped;
            self.count(task, rank, 0);
            if !self.graph.is_final(task) {
                self.ranks[rank].orders.dropped.push(task);
            }
        }
    }

    pub(super) fn has_journalled(&mut self, task: usize) {
        self.journalled[task] = true;
    }

    pub(super) fn is_lost(&self, rank: usize) -> bool {
        self.ranks[rank].is_lost
    }

    /// Stops the run: dispatches no more tasks, and asks ranks to return those that they have not begun.
    pub(super) fn stop(&mut self) {
        if std::mem::replace(&mut self.is_stopping, true) {
            return;
        }
        for rank in 0..self.ranks.len() {
            for task in self.ranks[rank].outstanding.clone() {
                let orders = &mut self.ranks[rank].orders;
                if orders.forget(task) {
                    self.withdraw(task, rank);
                } else {
                    orders.recalled.push(task);
                }
            }
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.is_stopping && self.left > 0
    }

    /// Returns true if all tasks have ended, or if the run was stopped and no rank runs a task.
    pub(super) fn is_finished(&self) -> bool {
        let is_idle = |rank: &Rank| rank.is_lost || rank.outstanding.is_empty();
        self.left == 0 || (self.is_stopping && self.ranks.iter().all(is_idle))
    }

    pub(super) fn progress(&self) -> (usize, usize) {
        (self.tasks.len() - self.left, self.tasks.len())
    }

    /// Returns the estimated time in seconds of the remaining critical path: the longest chain of tasks that have not ended. It is computed from the
    /// run times in the description and the ratio of measured run times to them; `None` before the first task is done.
    pub(super) fn critical_path(&self) -> Option<f64> {
        let work: f64 = (0..self.tasks.len())
            .filter(|&task| self.measured[task].is_some())
            .map(|task| self.graph.dag.work(task))
            .sum();
        let mut levels = vec![0.0_f64; self.tasks.len()];
        for &task in self.graph.dag.topological_order().iter().rev() {
            if matches!(self.tasks[task].state, State::Waiting | State::Dispatched(_)) {
                let below = self.graph.children(task).map(|child| levels[child]).fold(0.0, f64::max);
                levels[task] = below + self.graph.dag.work(task);
            }
        }
        let left = levels.into_iter().fold(0.0, f64::max);
        (work > 0.0).then(|| left * Duration::from_nanos(self.took.0).as_secs_f64() / work)
    }

    pub(super) fn is_done(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Done(_) | State::Dropped)
    }

    /// Returns true if the task is done and other tasks still need its value.
    pub(super) fn is_needed(&self, task: usize) -> bool {
        matches!(self.tasks[task].state, State::Done(_))
    }

    pub(super) fn failed(&self) -> &[FailedTask] {
        &self.failed
    }

    pub(super) fn take_orders(&mut self) -> impl Iterator<Item = (usize, Orders)> + '_ {
        let has_urgent_change = |(_, rank): &(usize, &mut Rank)| !rank.orders.is_empty() && !rank.is_lost;
        let ranks = self.ranks.iter_mut().enumerate().filter(has_urgent_change);
        ranks.map(|(rank, state)| (rank, std::mem::take(&mut state.orders)))
    }

    /// Describes which ranks run tasks, with one task of each, for messages about a run that makes no progress.
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
            true => format!("for no rank, with {} tasks left", self.left),
            false => format!("for {}; {} tasks left", ranks.join(", "), self.left),
        }
    }
}

//! Failed tries of tasks in a workflow: the master retries the task on another rank, or gives up the task and all tasks that depend on it.

use armature_text::shown;

use super::{Master, State};
use crate::error::{Error, ErrorKind, Result};
use crate::failed_task::FailedTask;
use crate::observe::number_format::{count, seconds};
use crate::session::topology::Size;
use crate::workflow::messages::{Failure, Reason};

impl Master {
    /// Handles a failed try of a task on a rank.
    ///
    /// # Errors
    /// More tasks have failed for good than allowed.
    pub(super) fn on_failed(&mut self, rank: usize, failure: Failure) -> Result<()> {
        let task = failure.task;
        if self.tasks[task].state != State::Dispatched(rank) {
            return Ok(());
        }
        self.withdraw(task, rank);
        // A command that fails while the job stops is not counted as failed: the signal that stops the job may have ended the command too.
        if self.is_stopping && self.graph.needs(task).is_command {
            return Ok(());
        }
        if failure.reason == Reason::Memory
            && let Some(larger) = self.larger_than(rank, task)
        {
            // The rank refused the task for lack of memory and has not begun it, so no try is counted. The task is dispatched before all others,
            // because tasks that ranks already hold may wait for its value.
            self.tasks[task].is_urgent = true;
            if !self.order(task, larger) {
                self.order_again(task);
            }
            return Ok(());
        }
        self.tasks[task].attempts.failed += 1;
        self.tasks[task].exceeded.count(failure.reason);
        self.tasks[task].avoided_rank = Some(rank);
        let attempts = self.tasks[task].attempts;
        if failure.reason != Reason::Memory && !attempts.is_exhausted(self.graph.needs(task).tries) {
            self.retried += 1;
            log::info!("{}", self.retry(task, rank, &failure));
            self.order_again(task);
            return Ok(());
        }
        let kind = match failure.reason {
            Reason::Error | Reason::MemoryLimit => ErrorKind::User,
            // A command that exceeds its time limit has been ended, and its next try gets more time.
            Reason::TimeLimit if self.graph.needs(task).is_command => ErrorKind::User,
            Reason::Panic => ErrorKind::Panic,
            Reason::Memory => ErrorKind::Config,
            Reason::TimeLimit => ErrorKind::Timeout,
        };
        let failed = FailedTask {
            task: task as u64,
            name: Some(self.graph.dag.name(task).to_string()),
            rank,
            tries: attempts.failed - u32::from(failure.reason == Reason::Memory),
            kind,
            message: failure.message,
        };
        self.fail(failed)
    }

    fn retry(&self, task: usize, rank: usize, failure: &Failure) -> String {
        let (needs, exceeded) = (self.graph.needs(task), self.tasks[task].exceeded);
        let with = match failure.reason {
            Reason::MemoryLimit => self
                .graph
                .memory_limit(task, exceeded)
                .map(|bytes| format!(" with {} of memory", Size(bytes))),
            Reason::TimeLimit if needs.is_command => self
                .graph
                .time_limit(task, exceeded)
                .map(|limit| format!(" with a time limit of {}", seconds(limit.as_secs_f64()))),
            _ => None,
        };
        let name = shown(self.graph.dag.name(task));
        format!(
            "task {name} is tried again{}: {} (rank {rank})",
            with.unwrap_or_default(),
            shown(&failure.message)
        )
    }

    /// Gives up a task that has failed in its last try, and all tasks that depend on it.
    ///
    /// # Errors
    /// An error of the kind of the failure if more tasks have failed for good than allowed.
    pub(super) fn fail(&mut self, failed: FailedTask) -> Result<()> {
        let FailedTask { task, rank, kind, .. } = failed;
        self.abandon(task as usize);
        let mut description = failed.in_error();
        self.failed.push(failed);
        if self.failed.len() <= self.max_failures {
            return Ok(());
        }
        if self.max_failures > 0 {
            description +=
                &format!("; the run ends after {}", count(self.failed.len() as u64, "failed task"));
        }
        Err(Error::new(kind, description).at_rank(rank).on_item(task).in_workflow(&self.graph.name))
    }

    /// Returns the rank with the most memory among those that may run the task; `None` if it has no more memory than `rank`, which has refused the
    /// task.
    fn larger_than(&self, rank: usize, task: usize) -> Option<usize> {
        let largest = self.ranks_for(task).max_by_key(|&other| self.ranks[other].memory)?;
        (self.ranks[largest].memory > self.ranks[rank].memory).then_some(largest)
    }

    /// Withdraws a task from the rank to which it was dispatched. The task then waits to be dispatched again.
    pub(super) fn withdraw(&mut self, task: usize, rank: usize) {
        self.ranks[rank].outstanding.remove(&task);
        self.release(task);
        self.tasks[task].state = State::Waiting;
        self.count(task, rank, 0);
        let graph = self.graph.clone();
        for child in graph.children(task) {
            self.tasks[child].unplaced += 1;
        }
    }

    /// Cancels the dispatch of a task to a rank: deletes the master's order to run the task if it has not been sent to the rank, and otherwise sends
    /// a cancellation.
    pub(super) fn cancel(&mut self, task: usize, rank: usize) {
        let orders = &mut self.ranks[rank].orders;
        if !orders.forget(task) {
            orders.cancelled.push(task);
        }
    }

    /// Makes a task urgent: it is dispatched before all others, because tasks that ranks already hold may wait for its value.
    pub(super) fn order_again(&mut self, task: usize) {
        self.tasks[task].is_urgent = true;
        self.consider(task);
    }

    fn abandon(&mut self, task: usize) {
        let graph = self.graph.clone();
        let mut to_skip = vec![task];
        while let Some(next) = to_skip.pop() {
            match self.tasks[next].state {
                State::Waiting => self.take_announcement_back(next),
                State::Dispatched(rank) => {
                    self.withdraw(next, rank);
                    self.cancel(next, rank);
                }
                _ => continue,
            }
            self.skipped += u64::from(next != task);
            self.tasks[next].state = if next == task { State::Failed } else { State::Skipped };
            self.left -= 1;
            self.fewer_readers(next);
            to_skip.extend(graph.children(next));
        }
    }
}

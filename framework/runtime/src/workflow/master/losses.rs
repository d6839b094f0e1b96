//! Deaths of ranks in a workflow. The master repeats the tasks that were dispatched to the dead rank, and those whose values only the dead rank had.
//! Completed commands are not repeated, because their files are not lost.

use std::collections::BTreeMap;

use super::{Master, State, TaskRecord};
use crate::error::Result;
use crate::tasks::{Attempts, Blame, LastActivity};

impl Master {
    /// Handles the death of rank `lost`. `last` is its last recorded activity, from memory that survives the rank (its flight record). Returns the
    /// number of tasks that are run again.
    ///
    /// # Errors
    /// More tasks have failed for good than allowed.
    pub(in crate::workflow) fn on_lost(&mut self, lost: usize, last: LastActivity) -> Result<u64> {
        if std::mem::replace(&mut self.ranks[lost].is_lost, true) {
            return Ok(0);
        }
        self.take_announcements_back();
        self.supply.unplan(&self.graph);
        if let Some(replanning) = &mut self.replanning {
            replanning.on_lost(lost);
        }
        let suspect_tasks = self.suspect_tasks(lost, last);
        let outstanding: Vec<usize> = self.ranks[lost].outstanding.iter().copied().collect();
        let graph = self.graph.clone();
        let mut again = Vec::new();
        for task in outstanding {
            self.ranks[lost].outstanding.remove(&task);
            self.release(task);
            self.count(task, lost, 0);
            if self.journalled[task] {
                // The value of the task had arrived at rank 0 before the rank died. Only the rank's report is missing, so the task counts as done.
                self.tasks[task].state = State::Done(lost);
                self.left -= 1;
                self.fewer_readers(task);
            } else {
                self.tasks[task].state = State::Waiting;
                again.push(task);
            }
        }
        let mut to_make: Vec<usize> =
            (0..graph.len()).filter(|&task| self.tasks[task].state == State::Done(lost)).collect();
        let restored = self.to_restore.len();
        while let Some(task) = to_make.pop() {
            match self.tasks[task].state {
                State::Done(rank) if rank == lost => {}
                State::Dropped => {}
                _ => continue,
            }
            self.count(task, lost, 0);
            // A completed command is not repeated. Its value is empty and only means that its files exist: in a shared directory, or on rank 0,
            // which has fetched them.
            if self.journalled[task] || graph.needs(task).is_command {
                let is_read = self.tasks[task].readers > 0;
                self.tasks[task].state = if is_read { State::Done(0) } else { State::Dropped };
                self.to_restore.extend(is_read.then_some(task));
                continue;
            }
            self.tasks[task].state = State::Waiting;
            self.left += 1;
            again.push(task);
            for parent in graph.parents(task) {
                self.tasks[parent].readers += 1;
                to_make.push(parent);
            }
        }
        for &task in &self.to_restore[restored..] {
            for child in graph.children(task) {
                if let State::Dispatched(reader) = self.tasks[child].state {
                    self.ranks[reader].orders.changed_sources.push((task, 0));
                }
            }
        }
        let count = again.len() as u64;
        for &task in &again {
            // Ranks that wait for the lost input must not wait for the dead rank. As a placeholder, the source of the input is set to the waiting
            // rank itself; when the task that computes the input is dispatched again, the new source is sent.
            for child in graph.children(task) {
                if let State::Dispatched(reader) = self.tasks[child].state {
                    self.ranks[reader].orders.changed_sources.push((task, reader));
                }
            }
        }
        again.extend(self.take_limits_back());
        self.again += count;
        for task in again {
            self.tasks[task].is_urgent = true;
        }
        self.blame(&suspect_tasks, lost);
        self.recount();
        self.abandon_hopeless(Some(lost))?;
        self.fill();
        Ok(count)
    }

    /// Withdraws dispatched tasks that occupy shared resources (such as licences) but cannot run because inputs were lost: the tasks that recompute
    /// the inputs may need the same resources. Returns the tasks whose orders had not been sent yet; they are withdrawn at once. A rank that has
    /// received its order may have begun the task with copies of the inputs, so it is asked to return the task, and the resources stay occupied until
    /// it replies.
    fn take_limits_back(&mut self) -> Vec<usize> {
        let graph = self.graph.clone();
        let is_done = |master: &Master, parent: usize| matches!(master.tasks[parent].state, State::Done(_));
        let mut taken = Vec::new();
        for task in 0..graph.len() {
            let State::Dispatched(rank) = self.tasks[task].state else { continue };
            if !graph.needs(task).limits.is_empty()
                && !graph.parents(task).all(|parent| is_done(self, parent))
            {
                let orders = &mut self.ranks[rank].orders;
                if orders.forget(task) {
                    self.withdraw(task, rank);
                    taken.push(task);
                } else {
                    orders.recalled.push(task);
                }
            }
        }
        taken
    }

    /// Returns the tasks that may have caused the death of rank `lost`: closures that may have been running on it or, if there is none, the first
    /// command that may have been running.
    fn suspect_tasks(&self, lost: usize, last: LastActivity) -> Vec<usize> {
        // Each closure dispatched to the dead rank may have been running, even if its parents are not reported as done: values go directly between
        // ranks, and may arrive before the reports.
        let outstanding = self.ranks[lost].outstanding.iter().copied().filter(|&task| !self.journalled[task]);
        let (commands, closures): (Vec<usize>, Vec<usize>) =
            outstanding.partition(|&task| self.graph.needs(task).is_command);
        let of = |is_one: &dyn Fn(usize) -> bool| -> Vec<usize> {
            closures.iter().copied().filter(|&task| is_one(task)).collect()
        };
        let began = of(&|task| self.tasks[task].has_started);
        let suspect_tasks = match last {
            LastActivity::Innocent => return Vec::new(),
            LastActivity::Chunk { id, .. } => return of(&|task| task as u64 == id),
            LastActivity::Unrecorded(_) => Vec::new(),
            LastActivity::Behind(_) if !began.is_empty() => began,
            // A closure that is suspected because of an earlier death had not begun on the dead rank, which would otherwise have reported that the
            // closure began.
            LastActivity::Behind(_) => of(&|task| !self.tasks[task].attempts.is_suspect()),
        };
        match suspect_tasks.is_empty() {
            true => commands.into_iter().filter(|&task| self.tasks[task].undone == 0).take(1).collect(),
            false => suspect_tasks,
        }
    }

    /// Counts the death of a rank as a failed try of the task that has caused it or, if several tasks may have caused it, makes each of them
    /// suspect. A command is never suspect: it runs in separate processes, so it does not endanger the rank that tries it next.
    fn blame(&mut self, suspect_tasks: &[usize], lost: usize) {
        self.deaths.last += 1;
        let blame = if suspect_tasks.len() == 1 { Blame::Guilty } else { Blame::Suspect(1) };
        for &task in suspect_tasks {
            let needs = self.graph.needs(task);
            let blamed = &mut self.tasks[task];
            let attempts = self.deaths.judge(blamed.attempts, blame);
            let suspicion = if needs.is_command { blamed.attempts.suspicion } else { attempts.suspicion };
            (blamed.attempts, blamed.avoided_rank) = (Attempts { suspicion, ..attempts }, Some(lost));
            self.retried += u64::from(blame == Blame::Guilty && !attempts.is_exhausted(needs.tries));
        }
        // A task that is cleared of an earlier death is no longer barred from rank 0, but is still dispatched to another rank if possible.
        let explained = std::mem::take(&mut self.deaths.explained);
        for task in &mut self.tasks {
            if task.attempts.clear(&explained) {
                task.avoided_rank = Some(0);
            }
        }
    }

    /// Records that a suspect task (one that may have killed an earlier rank) has begun on a rank. If it is a closure, all other closures dispatched
    /// to the rank are marked as not running, because a rank runs one closure at a time.
    pub(in crate::workflow) fn on_started(&mut self, rank: usize, task: usize) {
        if self.tasks[task].state != State::Dispatched(rank) {
            return;
        }
        if !self.graph.needs(task).is_command {
            let closures =
                self.ranks[rank].outstanding.iter().filter(|&&other| !self.graph.needs(other).is_command);
            closures.for_each(|&closure| self.tasks[closure].has_started = false);
        }
        self.tasks[task].has_started = true;
    }

    pub(in crate::workflow) fn attempts(&self) -> Vec<Attempts> {
        self.tasks.iter().map(|task| task.attempts).collect()
    }

    fn others(&self) -> usize {
        self.ranks.iter().skip(1).filter(|rank| !rank.is_lost).count()
    }

    /// Restores the numbers of tries and deaths that an earlier run of the job has noted in the journal for tasks in which ranks died. A task that
    /// had used all its tries gets [new tries](Attempts::renewed): the earlier run reported its failure, and the job was started again nevertheless.
    /// Must be called before [`begin`](Master::begin).
    ///
    /// # Errors
    /// Tasks that no rank of this run may try have failed for good, and they are more than allowed.
    pub(in crate::workflow) fn restore_attempts(
        &mut self,
        restored: &BTreeMap<usize, Attempts>,
    ) -> Result<()> {
        let others = self.others();
        for (&task, &attempts) in restored {
            self.deaths.last = self.deaths.last.max(attempts.suspicion.death);
            if self.tasks[task].state == State::Waiting {
                let is_exhausted = attempts.is_exhausted(self.graph.needs(task).tries);
                let attempts = if is_exhausted { attempts.renewed(others) } else { attempts };
                // A suspect task (one that may have killed an earlier rank) becomes urgent, so that the master chooses a rank that may run it.
                // Otherwise the next idle rank, which may be rank 0, would get it.
                (self.tasks[task].attempts, self.tasks[task].is_urgent) = (attempts, attempts.is_suspect());
            }
        }
        self.abandon_hopeless(None)
    }

    /// Gives up tasks that have used all their tries, and tasks that no remaining rank may run because ranks died in them. `lost` is the rank that
    /// has just died; `None` if the deaths happened in an earlier run of the job.
    ///
    /// # Errors
    /// More tasks have failed for good than allowed.
    fn abandon_hopeless(&mut self, lost: Option<usize>) -> Result<()> {
        let others = self.others();
        for task in 0..self.tasks.len() {
            let TaskRecord { state, attempts, .. } = self.tasks[task];
            let tries = self.graph.needs(task).tries;
            if state == State::Waiting && attempts.is_hopeless(tries, others) {
                let name = self.graph.dag.name(task).to_string();
                let (last, words) = (lost.map(|lost| (lost, "")), ("has died", "another task"));
                self.fail(attempts.failure((task as u64, Some(name)), tries, last, words))?;
            }
        }
        Ok(())
    }

    /// Returns the tasks whose values rank 0 must restore after the death of a rank: values in the journal, and the empty values of commands.
    pub(in crate::workflow) fn take_to_restore(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to_restore)
    }
}

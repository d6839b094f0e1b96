//! Deaths of ranks: the orders of the dead rank are run again, and so are the tasks whose values existed only on the dead rank. Completed commands
//! are not run again, because their files are not lost.

use std::collections::BTreeMap;

use super::{Master, State, Task};
use crate::error::Result;
use crate::tasks::{Attempts, Blame, LastActivity};

impl Master {
    /// Handles the death of rank `lost`, whose last activity according to its flight record is `last`. Returns the number of tasks that are run
    /// again.
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
                // The task counts as done: its value arrived at rank 0 before the rank died, and only the rank's report of the task is missing.
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
            // A completed command is not run again. Its value only means that its files exist: in a shared directory, or on rank 0, which has the
            // files of all completed commands.
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
                if let State::Ordered(reader) = self.tasks[child].state {
                    self.ranks[reader].orders.changed_sources.push((task, 0));
                }
            }
        }
        let count = again.len() as u64;
        for &task in &again {
            // The rank with the order stops waiting for the dead rank. The new source of the input is sent when the task that computes it is
            // ordered again.
            for child in graph.children(task) {
                if let State::Ordered(reader) = self.tasks[child].state {
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

    /// Withdraws orders that hold named limits (amounts that concurrent tasks share) and can no longer run, because the tasks that they wait for may
    /// need the same limits. A rank that has received an order may have begun its task with copies of the lost values: the order is then recalled,
    /// and its limits are held until the rank answers. Returns the tasks whose orders had not been sent.
    fn take_limits_back(&mut self) -> Vec<usize> {
        let graph = self.graph.clone();
        let is_done = |master: &Master, parent: usize| matches!(master.tasks[parent].state, State::Done(_));
        let mut taken = Vec::new();
        for task in 0..graph.len() {
            let State::Ordered(rank) = self.tasks[task].state else { continue };
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

    /// Returns the closures in one of which the rank `lost` may have died; if there is none, the first command that may have been running on the
    /// rank.
    fn suspect_tasks(&self, lost: usize, last: LastActivity) -> Vec<usize> {
        // All closures ordered on the dead rank may have been running, even if their parents are not reported as done: values go directly between
        // ranks, so a closure may have run before the reports arrived.
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
            // A closure that is already suspected did not begin on the dead rank, because the rank would have reported its beginning.
            LastActivity::Behind(_) => of(&|task| !self.tasks[task].attempts.is_suspect()),
        };
        match suspect_tasks.is_empty() {
            true => commands.into_iter().filter(|&task| self.tasks[task].undone == 0).take(1).collect(),
            false => suspect_tasks,
        }
    }

    /// Counts a death as a try of the task in which the rank died, or, if several tasks may be the cause, as a suspicion of each. A command is not
    /// suspected: it runs in separate processes, so the rank that tries it next is not in danger.
    fn blame(&mut self, suspect_tasks: &[usize], lost: usize) {
        self.deaths.last += 1;
        let blame = if suspect_tasks.len() == 1 { Blame::Guilty } else { Blame::Suspect(1) };
        for &task in suspect_tasks {
            let needs = self.graph.needs(task);
            let blamed = &mut self.tasks[task];
            let attempts = self.deaths.judge(blamed.attempts, blame);
            let suspicion = if needs.is_command { blamed.attempts.suspicion } else { attempts.suspicion };
            (blamed.attempts, blamed.failed_on) = (Attempts { suspicion, ..attempts }, Some(lost));
            self.retried += u64::from(blame == Blame::Guilty && !attempts.is_exhausted(needs.tries));
        }
        // A task that is no longer suspected of an earlier death is retried, if possible, on another rank than rank 0.
        let explained = std::mem::take(&mut self.deaths.explained);
        for task in &mut self.tasks {
            if task.attempts.clear(&explained) {
                task.failed_on = Some(0);
            }
        }
    }

    /// Records that a suspected task has begun on a rank. All other closures ordered on the rank are marked as not running, because a closure ends
    /// before the next closure of its rank begins.
    pub(in crate::workflow) fn on_started(&mut self, rank: usize, task: usize) {
        if self.tasks[task].state != State::Ordered(rank) {
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

    /// Returns the number of living ranks other than rank 0.
    fn others(&self) -> usize {
        self.ranks.iter().skip(1).filter(|rank| !rank.is_lost).count()
    }

    /// Restores the attempts that an earlier run of the job noted in the journal for tasks in which ranks died. A task that had used all its tries
    /// gets [new tries](Attempts::renewed): the earlier run reported its failure, and the job was started again nevertheless. Has to be called before
    /// [`begin`](Master::begin).
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
                // A suspected task is made urgent, so that the master sends it to a rank that may try it, not to the next idle rank.
                (self.tasks[task].attempts, self.tasks[task].is_urgent) = (attempts, attempts.is_suspect());
            }
        }
        self.abandon_hopeless(None)
    }

    /// Gives up tasks that have used all their tries, and tasks that no remaining rank may try because ranks died in them. `lost` is the
    /// rank that has just died; `None` if the deaths happened in an earlier run of the job.
    ///
    /// # Errors
    /// More tasks have failed for good than allowed.
    fn abandon_hopeless(&mut self, lost: Option<usize>) -> Result<()> {
        let others = self.others();
        for task in 0..self.tasks.len() {
            let Task { state, attempts, .. } = self.tasks[task];
            let tries = self.graph.needs(task).tries;
            if state == State::Waiting && attempts.is_hopeless(tries, others) {
                let name = self.graph.dag.name(task).to_string();
                let (last, words) = (lost.map(|lost| (lost, "")), ("has died", "another task"));
                self.fail(attempts.failure((task as u64, Some(name)), tries, last, words))?;
            }
        }
        Ok(())
    }

    /// Returns tasks whose values rank 0 has to restore: values that are in the journal, and the empty values of commands.
    pub(in crate::workflow) fn take_to_restore(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to_restore)
    }
}

//! Ranks that die: what they had is run again, and so are the tasks whose values were only there. The files of commands that are done are
//! not.

use super::{Master, State};
use crate::error::Result;
use crate::workflow::messages::{Failure, Reason};

impl Master {
    /// A rank has died. Returns how many tasks are run again for it.
    ///
    /// # Errors
    /// A task has failed for good, and no more may.
    pub(in crate::workflow) fn on_lost(&mut self, lost: usize) -> Result<u64> {
        if std::mem::replace(&mut self.ranks[lost].is_lost, true) {
            return Ok(0);
        }
        self.take_announcements_back();
        self.pools.unplan(&self.graph);
        if let Some(replanning) = &mut self.replanning {
            replanning.on_lost(lost);
        }
        let outstanding: Vec<usize> = self.ranks[lost].outstanding.iter().copied().collect();
        // The first that could run is the one in which it died, as far as can be told from here.
        let suspect = outstanding.iter().copied().find(|&task| self.tasks[task].undone == 0);
        let graph = self.graph.clone();
        let mut again = Vec::new();
        for task in outstanding {
            self.ranks[lost].outstanding.remove(&task);
            self.release(task);
            if self.journalled[task] {
                // Its report has not come through, what it gives has.
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
                State::Gone => {}
                _ => continue,
            }
            // What a command gives says that its files are there: in a directory that all share, or on rank 0, which has what is done.
            if self.journalled[task] || graph.needs(task).is_command {
                let is_read = self.tasks[task].readers > 0;
                self.tasks[task].state = if is_read { State::Done(0) } else { State::Gone };
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
                    self.ranks[reader].orders.moved.push((task, 0));
                }
            }
        }
        let count = again.len() as u64;
        for &task in &again {
            // Nobody is to wait for it where it was; where it will be is said when it is ordered.
            for child in graph.children(task) {
                if let State::Ordered(reader) = self.tasks[child].state {
                    self.ranks[reader].orders.moved.push((task, reader));
                }
            }
        }
        again.extend(self.take_limits_back());
        self.again += count;
        self.urgent.clear();
        for task in again {
            self.tasks[task].is_urgent = true;
        }
        self.recount();
        if let Some(task) = suspect {
            self.blame(task, lost)?;
        }
        self.fill();
        Ok(count)
    }

    /// Takes orders back that hold limits and can no longer run, since what they wait for may need the same limits. A rank that has got
    /// one may have begun it, as it has copies of what was lost: it is asked, and the limits are held until it answers. Returns those that
    /// nobody has got yet.
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

    /// A process has died in a task.
    fn blame(&mut self, task: usize, lost: usize) -> Result<()> {
        if self.tasks[task].attempt + 1 < self.graph.needs(task).tries {
            self.tasks[task].attempt += 1;
            self.tasks[task].failed_on = Some(lost);
            self.retried += 1;
            return Ok(());
        }
        // As if it had been reported.
        let graph = self.graph.clone();
        self.tasks[task].state = State::Ordered(lost);
        graph.children(task).for_each(|child| self.tasks[child].unplaced -= 1);
        let held = self.limits.take(&graph.needs(task).limits);
        debug_assert!(held, "it was given back just now");
        let message = format!("rank {lost} has died, presumably in it");
        let attempt = self.tasks[task].attempt;
        self.on_failed(lost, Failure { task, attempt, reason: Reason::Death, message })
    }

    /// Values that are to be on rank 0 again: from the journal, or those of commands, which are nothing.
    pub(in crate::workflow) fn take_to_restore(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to_restore)
    }
}

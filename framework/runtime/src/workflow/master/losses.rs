//! Ranks that die: what they had is run again, and so are the tasks whose values were only there. The files of commands that are done are
//! not.

use std::collections::BTreeMap;

use super::{Master, State, Task};
use crate::error::{ErrorKind, Result};
use crate::rank::suspicion::{Tried, Verdict};
use crate::workflow::failed_task::FailedTask;

/// What is known of the task that a dead rank was in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::workflow) enum LastTask {
    /// The rank was silent and may live: its loss has nothing to do with its tasks.
    Innocent,
    /// It was in this closure.
    Closure(usize),
    /// It was in no closure; commands may have run.
    NoClosure,
    /// Nothing.
    Unknown,
}

impl Master {
    /// A rank has died; `last` is the task in which it died, as far as that is known. Returns how many tasks are run again for it.
    ///
    /// # Errors
    /// A task has failed for good, and no more may.
    pub(in crate::workflow) fn on_lost(&mut self, lost: usize, last: LastTask) -> Result<u64> {
        if std::mem::replace(&mut self.ranks[lost].is_lost, true) {
            return Ok(0);
        }
        self.take_announcements_back();
        self.pools.unplan(&self.graph);
        if let Some(replanning) = &mut self.replanning {
            replanning.on_lost(lost);
        }
        let suspects = self.suspects(lost, last);
        let outstanding: Vec<usize> = self.ranks[lost].outstanding.iter().copied().collect();
        let graph = self.graph.clone();
        let mut again = Vec::new();
        for task in outstanding {
            self.ranks[lost].outstanding.remove(&task);
            self.release(task);
            self.count(task, lost, 0);
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
            self.count(task, lost, 0);
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
        self.blame(&suspects, lost);
        self.recount();
        self.give_up_hopeless(Some(lost))?;
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

    /// Closures in one of which a dead rank may have died; if there is none, the first command that may have run there.
    fn suspects(&self, lost: usize, last: LastTask) -> Vec<usize> {
        // Values go from rank to rank: a closure may have run before its parents were reported done.
        let outstanding = self.ranks[lost].outstanding.iter().copied().filter(|&task| !self.journalled[task]);
        let (commands, closures): (Vec<usize>, Vec<usize>) =
            outstanding.partition(|&task| self.graph.needs(task).is_command);
        let of = |is_one: &dyn Fn(usize) -> bool| -> Vec<usize> {
            closures.iter().copied().filter(|&task| is_one(task)).collect()
        };
        let began = of(&|task| self.tasks[task].has_begun);
        let suspects = match last {
            LastTask::Innocent => return Vec::new(),
            LastTask::Closure(closure) => return of(&|task| task == closure),
            LastTask::NoClosure => Vec::new(),
            LastTask::Unknown if !began.is_empty() => began,
            // Of a suspect it would have said that it begins.
            LastTask::Unknown => of(&|task| !self.tasks[task].suspicion.is_there()),
        };
        match suspects.is_empty() {
            true => commands.into_iter().filter(|&task| self.tasks[task].undone == 0).take(1).collect(),
            false => suspects,
        }
    }

    /// Counts a death as a try of the task in which the rank died, or as a suspicion of all closures that it may have been. A command
    /// runs in processes of its own, so that it is no danger to the rank that tries it next.
    fn blame(&mut self, suspects: &[usize], lost: usize) {
        self.deaths += 1;
        let verdict = if suspects.len() == 1 { Verdict::Guilty } else { Verdict::Suspect(1) };
        for &task in suspects {
            let Task { attempt, suspicion: was, .. } = self.tasks[task];
            let (attempt, suspicion) = verdict.after(attempt, was, self.deaths);
            let needs = self.graph.needs(task);
            let blamed = &mut self.tasks[task];
            (blamed.attempt, blamed.failed_on) = (attempt, Some(lost));
            if !needs.is_command {
                blamed.suspicion = suspicion;
            }
            if verdict == Verdict::Guilty {
                self.retried += u64::from(attempt < needs.tries);
                if was.shared > 0 {
                    self.clear_suspects(was.death);
                }
            }
        }
    }

    /// A rank has begun a task of which ranks may have died. A closure ends before the next one of its rank begins.
    pub(in crate::workflow) fn on_begun(&mut self, rank: usize, task: usize) {
        if self.tasks[task].state != State::Ordered(rank) {
            return;
        }
        if !self.graph.needs(task).is_command {
            let closures =
                self.ranks[rank].outstanding.iter().filter(|&&other| !self.graph.needs(other).is_command);
            closures.for_each(|&closure| self.tasks[closure].has_begun = false);
        }
        self.tasks[task].has_begun = true;
    }

    /// Another task has turned out to be the cause of a death. Rank 0 leaves the cleared tasks to others all the same, as long as
    /// there are some.
    fn clear_suspects(&mut self, death: u32) {
        for task in &mut self.tasks {
            if task.suspicion.shared > 0 && task.suspicion.death == death {
                task.suspicion = task.suspicion.without_shared();
                task.failed_on = Some(0);
            }
        }
    }

    /// Returns the attempts of each task, and the deaths attributed to it.
    pub(in crate::workflow) fn tried(&self) -> Vec<Tried> {
        self.tasks.iter().map(|task| (task.attempt, task.suspicion)).collect()
    }

    /// Takes over what an earlier run of the job noted about tasks in which ranks died. A task that had all its attempts starts anew:
    /// that run reported its failure, and somebody has started the job again all the same. To be called before
    /// [`begin`](Master::begin).
    ///
    /// # Errors
    /// No rank of this run may try one of the tasks, and that are more failed tasks than allowed.
    pub(in crate::workflow) fn has_tried(&mut self, noted: &BTreeMap<usize, Tried>) -> Result<()> {
        for (&task, &(attempt, suspicion)) in noted {
            if self.tasks[task].state == State::Waiting && attempt < self.graph.needs(task).tries {
                let task = &mut self.tasks[task];
                // An urgent task is given to the rank that may try it, not to one that asks for work.
                (task.attempt, task.suspicion, task.is_urgent) = (attempt, suspicion, suspicion.is_there());
            }
            self.deaths = self.deaths.max(suspicion.death);
        }
        self.give_up_hopeless(None)
    }

    /// Gives up tasks in which ranks have died as often as they may, or that no rank is left to try. `lost` is the rank that has just
    /// died; without it, ranks died in an earlier run of the job.
    ///
    /// # Errors
    /// More tasks have failed for good than may.
    fn give_up_hopeless(&mut self, lost: Option<usize>) -> Result<()> {
        let others = (1..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost).count();
        for task in 0..self.tasks.len() {
            let Task { state, attempt, suspicion, .. } = self.tasks[task];
            let is_exhausted = attempt >= self.graph.needs(task).tries;
            let is_hopeless = suspicion.is_there() && !suspicion.is_worth_a_rank(others);
            if state != State::Waiting || !(is_exhausted || is_hopeless) {
                continue;
            }
            let place = if suspicion.certain > 0 { "it" } else { "it or in another task" };
            let mut message = match lost {
                Some(lost) => format!("the process of rank {lost} has died in {place}"),
                None => format!("a process has died in {place} (in an earlier run of the job)"),
            };
            if !is_exhausted {
                message += ", and no rank is left to risk with it";
            }
            let failed = FailedTask {
                task,
                name: self.graph.dag.name(task).to_string(),
                rank: lost.unwrap_or(0),
                attempts: attempt + suspicion.shared.min(1),
                panicked: false,
                message,
            };
            // In another run it may succeed, unless its own code has ended ranks at every try.
            let is_its_own = is_exhausted && suspicion.certain > 0;
            self.fail(failed, if is_its_own { ErrorKind::User } else { ErrorKind::Timeout })?;
        }
        Ok(())
    }

    /// Values that are to be on rank 0 again: from the journal, or those of commands, which are nothing.
    pub(in crate::workflow) fn take_to_restore(&mut self) -> Vec<usize> {
        std::mem::take(&mut self.to_restore)
    }
}

//! Dispatch of tasks: each rank gets orders in advance, as many as keep it busy until its next report.

use super::{AHEAD, LEAST_AHEAD, MOST_AHEAD, Master, State, Task};
use crate::workflow::messages::Order;

impl Master {
    /// Puts a waiting task into a pool, or among the urgent tasks, if it can be ordered now.
    pub(super) fn consider(&mut self, task: usize) {
        let Task { state, undone, unplaced, is_urgent, .. } = self.tasks[task];
        if state != State::Waiting || unplaced > 0 {
            return;
        }
        let is_ready = undone == 0;
        // A task that holds a named limit has to be able to begin at once.
        if !is_ready && !self.graph.needs(task).limits.is_empty() {
            return;
        }
        if is_urgent {
            self.urgent.push(task);
        } else {
            let (home, is_freeing) = (self.home(task), is_ready && self.frees_memory(task));
            self.pools.add(task, is_ready, is_freeing, home);
        }
    }

    /// Returns the rank that holds, or will hold, most bytes of a task's inputs.
    fn home(&self, task: usize) -> Option<usize> {
        let mut best: Option<(u64, usize)> = None;
        let place = |parent: usize| match self.tasks[parent].state {
            State::Ordered(rank) | State::Done(rank) if !self.ranks[rank].is_lost => Some(rank),
            _ => None,
        };
        for edge in self.graph.dag.inputs(task) {
            let Some(rank) = place(edge.from) else { continue };
            let same = self.graph.dag.inputs(task).filter(|other| place(other.from) == Some(rank));
            let bytes = same.map(|edge| edge.size.max(1)).sum();
            if best.is_none_or(|(most, _)| bytes > most) {
                best = Some((bytes, rank));
            }
        }
        best.map(|(_, rank)| rank)
    }

    /// Returns the number of orders that a rank gets if tasks are not short.
    fn least_ahead(&self) -> usize {
        LEAST_AHEAD * self.at_once
    }

    /// Returns true if tasks are so short that ranks get many orders in advance.
    pub(super) fn are_short(&self) -> bool {
        self.ahead() > self.least_ahead()
    }

    /// Returns the number of orders that a rank gets.
    fn ahead(&self) -> usize {
        let least = self.least_ahead();
        match self.took {
            (_, 0) => least,
            (took, tasks) => {
                let ahead = (AHEAD * tasks as f64 / (took.max(1) as f64)) as usize;
                ahead.clamp(least, MOST_AHEAD.max(least))
            }
        }
    }

    /// Orders tasks on all ranks that have room for more orders.
    pub(super) fn fill(&mut self) {
        if self.is_stopping {
            return;
        }
        for task in std::mem::take(&mut self.urgent) {
            if self.tasks[task].state == State::Waiting
                && let Some(rank) = self.least_busy(task)
                && !self.order(task, rank)
            {
                self.urgent.push(task);
            }
        }
        // Every rank gets one order before any rank gets several, and fills its cores before any rank gets orders in advance.
        for several in [1, self.at_once] {
            (0..self.ranks.len()).for_each(|rank| {
                self.fill_rank(rank, several);
            });
        }
        let ahead = self.ahead();
        loop {
            let mut has_ordered = false;
            for rank in 0..self.ranks.len() {
                has_ordered |= self.fill_rank(rank, ahead);
            }
            // The new orders may allow further tasks to be ordered.
            if !has_ordered {
                self.recall();
                return self.announce();
            }
        }
    }

    /// Orders tasks on a rank until it has `ahead` orders. Returns true if any task was ordered.
    fn fill_rank(&mut self, rank: usize, ahead: usize) -> bool {
        let has = |master: &Master| master.ranks[rank].outstanding.len();
        // One message with several orders is cheaper than several messages, which matters if tasks are short.
        let enough = if ahead > self.least_ahead() { ahead / 2 } else { ahead - 1 };
        if self.ranks[rank].is_lost || has(self) > enough {
            return false;
        }
        let mut has_ordered = false;
        while has(self) < ahead {
            let is_idle = has(self) < self.at_once;
            let next = if !self.pools.is_planned() && self.is_short_of_memory(rank) {
                self.pools.take_when_short(rank, is_idle)
            } else {
                let is_waiting = |task: usize| self.tasks[task].state == State::Waiting;
                self.pools.take(rank, is_idle, is_waiting)
            };
            let Some(task) = next else { break };
            // If a parent has to be run again, it is ordered first, and then this task is considered again.
            let Task { state, unplaced, .. } = self.tasks[task];
            if state != State::Waiting || unplaced > 0 {
                continue;
            }
            if self.order(task, rank) {
                has_ordered = true;
            } else {
                let limit = self.limits.wait(self.pools.key(task), &self.graph.needs(task).limits);
                if let Some(held) = &mut self.held {
                    held.extend(limit.map(|limit| (task, limit)));
                }
            }
        }
        has_ordered
    }

    /// Releases the named limits of a task, and considers the tasks that waited for them.
    pub(super) fn release(&mut self, task: usize) {
        let graph = self.graph.clone();
        for woken in self.limits.release(&graph.needs(task).limits) {
            self.consider(woken);
        }
    }

    /// Returns the living ranks that may try a task: all ranks, except rank 0 if a rank may have died in the task.
    pub(super) fn ranks_for(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let first = usize::from(self.tasks[task].suspicion.is_there());
        (first..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost)
    }

    /// Returns the rank with the fewest orders among those that may try a task, preferably not the rank on which the task has failed.
    fn least_busy(&self, task: usize) -> Option<usize> {
        let failed_on = self.tasks[task].failed_on;
        self.ranks_for(task).min_by_key(|&rank| (Some(rank) == failed_on, self.ranks[rank].outstanding.len()))
    }

    /// Orders a task on a rank, unless a named limit is too small. Returns true if the task was ordered.
    pub(super) fn order(&mut self, task: usize, rank: usize) -> bool {
        let graph = self.graph.clone();
        if !self.limits.take(&graph.needs(task).limits) {
            return false;
        }
        let sources = graph.parents(task).map(|parent| match self.tasks[parent].state {
            State::Ordered(source) | State::Done(source) => source,
            _ => rank,
        });
        let Task { attempt, exceeded, suspicion, .. } = self.tasks[task];
        let place =
            self.pools.place(task).filter(|_| !self.tasks[task].is_urgent && !graph.needs(task).is_command);
        let sources = sources.collect();
        let is_suspect = suspicion.is_there();
        let order = Order { task, attempt, exceeded, place, is_announced: false, is_suspect, sources };
        // If the task was announced to this rank, the order replaces the announcement; an announcement to another rank is withdrawn.
        self.is_announced_no_more(task, rank);
        self.ranks[rank].orders.orders.push(order);
        self.ranks[rank].outstanding.insert(task);
        let was_urgent = std::mem::take(&mut self.tasks[task].is_urgent);
        self.tasks[task].state = State::Ordered(rank);
        self.tasks[task].has_begun = false;
        self.count(task, rank, graph.output(task));
        for child in graph.children(task) {
            self.tasks[child].unplaced -= 1;
            match self.tasks[child].state {
                State::Waiting => {
                    if let Some(reader) = self.tasks[child].announced_to
                        && self.pools.rank_of(task) != Some(rank)
                    {
                        self.ranks[reader].orders.moved.push((task, rank));
                    }
                    self.consider(child);
                }
                State::Ordered(reader) if was_urgent => self.ranks[reader].orders.moved.push((task, rank)),
                _ => {}
            }
        }
        true
    }
}

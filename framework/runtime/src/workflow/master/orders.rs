//! Who is given what: ranks get tasks ahead, as many as keep them busy until the next report.

use super::{AHEAD, LEAST_AHEAD, MOST_AHEAD, Master, State, Task};
use crate::workflow::messages::Order;

impl Master {
    /// A task that waits may be orderable now.
    pub(super) fn consider(&mut self, task: usize) {
        let Task { state, undone, unplaced, is_urgent, .. } = self.tasks[task];
        if state != State::Waiting || unplaced > 0 {
            return;
        }
        let is_ready = undone == 0;
        // What holds a limit must be able to run.
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

    /// The rank that has most of a task's inputs, or will have them.
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

    /// How many tasks a rank is given, if they are not short.
    fn least_ahead(&self) -> usize {
        LEAST_AHEAD * self.at_once
    }

    /// Whether tasks are over so soon that ranks are given many ahead.
    pub(super) fn are_short(&self) -> bool {
        self.ahead() > self.least_ahead()
    }

    /// How many tasks a rank is given ahead.
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

    /// Gives ranks what they have room for.
    pub(super) fn fill(&mut self) {
        for task in std::mem::take(&mut self.urgent) {
            if self.tasks[task].state == State::Waiting
                && let Some(rank) = self.least_busy(task)
                && !self.order(task, rank)
            {
                self.urgent.push(task);
            }
        }
        // All get one before any gets several, and what they run at once before any gets more.
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
            // What has been ordered may have made others orderable.
            if !has_ordered {
                self.recall();
                return self.announce();
            }
        }
    }

    /// Returns whether anything was ordered.
    fn fill_rank(&mut self, rank: usize, ahead: usize) -> bool {
        let has = |master: &Master| master.ranks[rank].outstanding.len();
        // Messages with several orders are cheaper than several messages, which matters where tasks are short.
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
            // A parent that is to be run again has to be ordered first; then this one is considered again.
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

    /// A task takes no more of its limits: others may.
    pub(super) fn release(&mut self, task: usize) {
        let graph = self.graph.clone();
        for woken in self.limits.release(&graph.needs(task).limits) {
            self.consider(woken);
        }
    }

    /// Living ranks that may try a task: all but rank 0 if ranks may have died in it.
    pub(super) fn ranks_for(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let first = usize::from(self.tasks[task].suspicion.is_there());
        (first..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost)
    }

    /// The rank with the fewest orders that may try a task, preferably not the one on which it has failed.
    fn least_busy(&self, task: usize) -> Option<usize> {
        let failed_on = self.tasks[task].failed_on;
        self.ranks_for(task).min_by_key(|&rank| (Some(rank) == failed_on, self.ranks[rank].outstanding.len()))
    }

    /// Orders a task, unless it has to wait for a limit. Returns whether it has.
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
        // The rank that has its announcement learns by the order, another one that it is not to come.
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

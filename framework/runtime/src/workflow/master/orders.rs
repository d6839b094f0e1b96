//! Dispatch of tasks: each rank gets orders in advance, as many as keep it busy until its next report.
//!
//! With a plan, ranks also learn early which tasks they will run, so that some inputs arrive while others are still being computed. An
//! *announcement* is not an order. It can be withdrawn at any time, because no rank begins an announced task.
//!
//! Without a plan, queued tasks are *recalled* from busy ranks so that idle ranks can run them. A rank receives orders in advance, also for
//! tasks that read the value of a task that runs on the rank. Without recalls, three long tasks with a common parent would all stay on the
//! rank of the parent.

use super::{Master, Rank, State, Task};
use crate::workflow::messages::{ANNOUNCED, Exceeded, Order};

/// Minimum number of tasks that are ordered on a rank, for each task that the rank runs at once: the running task, and one more, so that the rank
/// need not wait for an order.
const LEAST_AHEAD: usize = 2;
/// Work in nanoseconds for which tasks are ordered on a rank in advance: much longer than a message takes, so that the rank always has an ordered
/// task, and short enough that no rank waits long for another at the end of the run.
const AHEAD: f64 = 2e6;
/// Maximum number of tasks ordered on a rank. Even with very short tasks, more orders per message would not save noticeable time.
const MOST_AHEAD: usize = 1024;

impl Master {
    /// Makes a waiting task available to be ordered on a rank, if all its parents are ordered or done.
    pub(super) fn consider(&mut self, task: usize) {
        let Task { state, undone, unplaced, is_urgent, .. } = self.tasks[task];
        if state != State::Waiting || unplaced > 0 {
            return;
        }
        let is_ready = undone == 0;
        // A task that holds a named limit is not ordered before all its parents are done, because it would keep other tasks from the limit while it
        // waits for them.
        if !is_ready && !self.graph.needs(task).limits.is_empty() {
            return;
        }
        if is_urgent {
            self.supply.urgent.push(task);
        } else {
            let (home, is_freeing) = (self.home(task), is_ready && self.frees_memory(task));
            self.supply.add(task, is_ready, is_freeing, home);
        }
    }

    /// Returns the rank that holds, or will hold, the most bytes of a task's inputs.
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

    /// Returns the number of tasks that are ordered on a rank if tasks are not short.
    fn least_ahead(&self) -> usize {
        LEAST_AHEAD * self.at_once
    }

    /// Returns true if tasks are so short that many of them are ordered on a rank in advance.
    fn are_short(&self) -> bool {
        self.ahead() > self.least_ahead()
    }

    /// Returns the number of tasks that are ordered on a rank in advance, the running tasks included.
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

    /// Orders tasks on all ranks that have fewer orders than they should have in advance.
    pub(super) fn fill(&mut self) {
        if self.is_stopping {
            return;
        }
        self.consider_held_back();
        for task in std::mem::take(&mut self.supply.urgent) {
            if self.tasks[task].state == State::Waiting
                && !self.is_too_long(task)
                && let Some(rank) = self.least_busy(task)
                && !self.order(task, rank)
            {
                self.supply.urgent.push(task);
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

    /// Orders tasks on a rank until `ahead` tasks are ordered on it. Returns true if any task was ordered.
    fn fill_rank(&mut self, rank: usize, ahead: usize) -> bool {
        let has = |master: &Master| master.ranks[rank].outstanding.len();
        // A rank with many orders gets new ones only when half of them are done: one message with several orders is cheaper than several messages,
        // which matters if tasks are short.
        let enough = if ahead > self.least_ahead() { ahead / 2 } else { ahead - 1 };
        if self.ranks[rank].is_lost || has(self) > enough {
            return false;
        }
        let mut has_ordered = false;
        while has(self) < ahead {
            let is_idle = has(self) < self.at_once;
            let next = if !self.supply.is_planned() && self.ranks[rank].is_short_of_memory() {
                self.supply.take_when_short(rank, is_idle)
            } else {
                let is_waiting = |task: usize| self.tasks[task].state == State::Waiting;
                self.supply.take(rank, is_idle, is_waiting)
            };
            let Some(task) = next else { break };
            // The task is skipped if one of its parents has to be run again. It becomes available again when that parent is ordered.
            let Task { state, unplaced, .. } = self.tasks[task];
            if state != State::Waiting || unplaced > 0 || self.is_too_long(task) {
                continue;
            }
            if self.is_too_late_on(rank, task) {
                self.consider(task);
                break;
            }
            if self.order(task, rank) {
                has_ordered = true;
            } else {
                self.supply.wait(task, &self.graph.needs(task).limits);
            }
        }
        has_ordered
    }

    /// Gives back the named limits that a task held, and makes the tasks available that waited for them.
    pub(super) fn release(&mut self, task: usize) {
        let graph = self.graph.clone();
        for woken in self.supply.release_limits(&graph.needs(task).limits) {
            self.consider(woken);
        }
    }

    /// Returns the living ranks that may try a task: all ranks, except rank 0 if a rank may have died in the task.
    pub(super) fn ranks_for(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let first = usize::from(self.tasks[task].attempts.is_suspect());
        (first..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost)
    }

    /// Returns the rank with the fewest ordered tasks among those that may try a task, preferably not the rank on which the task has failed.
    fn least_busy(&self, task: usize) -> Option<usize> {
        let failed_on = self.tasks[task].failed_on;
        self.ranks_for(task).min_by_key(|&rank| (Some(rank) == failed_on, self.ranks[rank].outstanding.len()))
    }

    /// Orders a task on a rank, unless the task needs more of a named limit than is left. Returns true if the task was ordered.
    pub(super) fn order(&mut self, task: usize, rank: usize) -> bool {
        let graph = self.graph.clone();
        if !self.supply.take_limits(&graph.needs(task).limits) {
            return false;
        }
        let sources = graph.parents(task).map(|parent| match self.tasks[parent].state {
            State::Ordered(source) | State::Done(source) => source,
            _ => rank,
        });
        let Task { attempts, exceeded, .. } = self.tasks[task];
        let place =
            self.supply.place(task).filter(|_| !self.tasks[task].is_urgent && !graph.needs(task).is_command);
        let sources = sources.collect();
        let (attempt, is_suspect) = (attempts.failed, attempts.is_suspect());
        let order = Order { task, attempt, exceeded, place, is_announced: false, is_suspect, sources };
        // The order of a task that was announced to this rank replaces the announcement. If the task was announced to another rank, that
        // announcement is withdrawn.
        if self.tasks[task].announced_to == Some(rank) {
            self.tasks[task].announced_to = None;
            self.ranks[rank].announced -= 1;
        } else {
            self.take_announcement_back(task);
        }
        self.ranks[rank].orders.orders.push(order);
        self.ranks[rank].outstanding.insert(task);
        let was_urgent = std::mem::take(&mut self.tasks[task].is_urgent);
        self.tasks[task].state = State::Ordered(rank);
        self.tasks[task].has_started = false;
        self.count(task, rank, graph.output(task));
        for child in graph.children(task) {
            self.tasks[child].unplaced -= 1;
            match self.tasks[child].state {
                State::Waiting => {
                    if let Some(reader) = self.tasks[child].announced_to
                        && self.supply.rank_of(task) != Some(rank)
                    {
                        self.ranks[reader].orders.changed_sources.push((task, rank));
                    }
                    self.consider(child);
                }
                State::Ordered(reader) if was_urgent => {
                    self.ranks[reader].orders.changed_sources.push((task, rank))
                }
                _ => {}
            }
        }
        true
    }

    /// Counts `bytes` for the value of a task on `rank`, instead of the bytes that were counted for it before. A value counts on the rank that
    /// computes it: the master does not know the copies on ranks that read it, and each rank starts tasks according to the memory that is really in
    /// use.
    pub(super) fn count(&mut self, task: usize, rank: usize, bytes: u64) {
        let before = std::mem::replace(&mut self.tasks[task].counted, bytes);
        self.ranks[rank].values = self.ranks[rank].values.saturating_sub(before).saturating_add(bytes);
    }

    /// Returns true if a task frees memory when it ends: its inputs, each divided by the number of tasks that still read that input, are larger
    /// than its value.
    fn frees_memory(&self, task: usize) -> bool {
        let share = |parent: usize| self.tasks[parent].counted / u64::from(self.tasks[parent].readers.max(1));
        let inputs: u64 = self.graph.parents(task).map(share).fold(0, u64::saturating_add);
        inputs > self.graph.output(task)
    }

    /// Announces the next tasks of the plan to ranks that have few announced tasks, so that the ranks can fetch inputs before the tasks are ordered.
    fn announce(&mut self) {
        // Nothing is announced if tasks are short: short tasks are ordered far in advance, so announcements would add nothing.
        if !self.supply.is_planned() || self.are_short() {
            return;
        }
        for rank in 0..self.ranks.len() {
            if self.ranks[rank].is_lost || self.ranks[rank].announced > ANNOUNCED / 2 {
                continue;
            }
            while self.ranks[rank].announced < ANNOUNCED
                && let Some(task) = self.supply.next_to_announce(rank)
            {
                self.announce_to(task, rank);
            }
        }
    }

    fn announce_to(&mut self, task: usize, rank: usize) {
        let graph = self.graph.clone();
        let source = |parent: usize| match self.tasks[parent].state {
            State::Ordered(source) | State::Done(source) => source,
            _ => self.supply.rank_of(parent).unwrap_or(rank),
        };
        let sources: Vec<usize> = graph.parents(task).map(source).collect();
        let reads_from_others = sources.iter().any(|&source| source != rank);
        if self.tasks[task].state != State::Waiting
            || self.tasks[task].is_urgent
            || graph.needs(task).is_command
            || !reads_from_others
        {
            return;
        }
        let place = self.supply.place(task);
        let order = Order {
            task,
            attempt: 0,
            exceeded: Exceeded::default(),
            place,
            is_announced: true,
            is_suspect: false,
            sources,
        };
        self.ranks[rank].orders.orders.push(order);
        self.ranks[rank].announced += 1;
        self.tasks[task].announced_to = Some(rank);
    }

    /// Withdraws the announcement that a rank will run a task, if there is one.
    pub(super) fn take_announcement_back(&mut self, task: usize) {
        if let Some(rank) = self.tasks[task].announced_to.take() {
            self.ranks[rank].announced -= 1;
            self.cancel(task, rank);
        }
    }

    /// Withdraws all announcements, because the plan is replaced or discarded.
    pub(super) fn take_announcements_back(&mut self) {
        (0..self.tasks.len()).for_each(|task| self.take_announcement_back(task));
    }

    /// Recalls ordered tasks from busy ranks, as many as idle ranks could begin at once. A rank returns only tasks that have not begun.
    fn recall(&mut self) {
        // Nothing is recalled if tasks are short, because they end before a recall pays, or with a plan, because the plan decides which rank waits.
        if self.supply.is_planned() || self.are_short() {
            return;
        }
        let room = |rank: &Rank| match rank.is_lost {
            true => 0,
            false => self.at_once.saturating_sub(rank.outstanding.len()),
        };
        let room: usize = self.ranks.iter().map(room).sum();
        for _ in 0..room {
            let Some((rank, task)) = self.last_of_the_fullest() else { return };
            self.tasks[task].was_recalled = true;
            self.ranks[rank].orders.recalled.push(task);
        }
    }

    /// Returns the rank with the most ordered tasks whose inputs exist, and the last of these tasks; `None` if no rank has more of them than it
    /// runs at once.
    fn last_of_the_fullest(&self) -> Option<(usize, usize)> {
        let able = |rank: usize| {
            let able = self.ranks[rank].outstanding.iter().copied().filter(|&task| {
                let task = &self.tasks[task];
                task.undone == 0 && !task.was_recalled
            });
            able.collect::<Vec<usize>>()
        };
        let alive = (0..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost);
        let (rank, able) = alive.map(|rank| (rank, able(rank))).max_by_key(|(_, able)| able.len())?;
        let is_sent =
            |&&task: &&usize| !self.ranks[rank].orders.orders.iter().any(|order| order.task == task);
        let last = able.iter().filter(is_sent).max_by_key(|&&task| self.supply.key(task))?;
        (able.len() > self.at_once).then_some((rank, *last))
    }
}

//! Dispatch of tasks by the master of a workflow: each rank gets several tasks in advance, as many as keep it busy until its next report.
//!
//! With a plan, ranks also learn early which tasks they will run later (*announcements*), so that inputs arrive while other tasks are computed. The
//! master can withdraw an announcement at any time, because no rank begins an announced task.
//!
//! Without a plan, the master *recalls* tasks that wait on busy ranks, so that idle ranks can run them. The tasks that read a value are dispatched
//! in advance to the rank that computes it. Without recalls, three long tasks with a common parent would all stay on the rank of the parent.

use super::{Master, Rank, State, TaskRecord};
use crate::workflow::messages::{ANNOUNCED, Exceeded, Order};

/// Minimum number of tasks that are dispatched to a rank, per task that the rank runs at once: the running task and one more, so that the rank need
/// not wait for an order.
const LEAST_AHEAD: usize = 2;
/// Total run time in nanoseconds of the tasks that are dispatched to a rank in advance: much longer than a message takes, so that the rank always has
/// a task, and short enough that no rank waits long for another at the end of the run.
const AHEAD: f64 = 2e6;
/// Maximum number of tasks that are dispatched to a rank in advance. Even with very short tasks, more tasks per message would not save noticeable
/// time.
const MOST_AHEAD: usize = 1024;

impl Master {
    /// Makes a waiting task available for dispatch if all its parents are dispatched or done.
    pub(super) fn consider(&mut self, task: usize) {
        let TaskRecord { state, undone, unplaced, is_urgent, .. } = self.tasks[task];
        if state != State::Waiting || unplaced > 0 {
            return;
        }
        let is_ready = undone == 0;
        // A task that needs a shared resource (such as licences) is dispatched only when all its parents are done, because it would occupy the
        // resource while it waits for their values.
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
            State::Dispatched(rank) | State::Done(rank) if !self.ranks[rank].is_lost => Some(rank),
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

    fn least_ahead(&self) -> usize {
        LEAST_AHEAD * self.at_once
    }

    fn are_short(&self) -> bool {
        self.ahead() > self.least_ahead()
    }

    /// Returns the number of tasks that a rank should have at any time, running and waiting ones together; the shorter the tasks, the more.
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
        // Every rank gets one task before any rank gets several, and tasks for all its cores before any rank gets tasks in advance.
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
            // Newly dispatched tasks may make their children available, so the loop continues until nothing can be dispatched.
            if !has_ordered {
                self.recall();
                return self.announce();
            }
        }
    }

    fn fill_rank(&mut self, rank: usize, ahead: usize) -> bool {
        let has = |master: &Master| master.ranks[rank].outstanding.len();
        // A rank with many tasks gets new ones only when half of them are done, because one message with several orders is cheaper than several
        // messages.
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
            // A task one of whose parents must be repeated is skipped. It becomes available again when the parent is dispatched.
            let TaskRecord { state, unplaced, .. } = self.tasks[task];
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

    /// Releases the shared resources (such as licences) of a task, and makes tasks available for dispatch that have waited for these resources.
    pub(super) fn release(&mut self, task: usize) {
        let graph = self.graph.clone();
        for woken in self.supply.release_limits(&graph.needs(task).limits) {
            self.consider(woken);
        }
    }

    /// Returns the living ranks that may run a task: all, or all except rank 0 if a rank may have died because of the task.
    pub(super) fn ranks_for(&self, task: usize) -> impl Iterator<Item = usize> + '_ {
        let first = usize::from(self.tasks[task].attempts.is_suspect());
        (first..self.ranks.len()).filter(|&rank| !self.ranks[rank].is_lost)
    }

    fn least_busy(&self, task: usize) -> Option<usize> {
        let avoided_rank = self.tasks[task].avoided_rank;
        self.ranks_for(task)
            .min_by_key(|&rank| (Some(rank) == avoided_rank, self.ranks[rank].outstanding.len()))
    }

    /// Dispatches a task to a rank, unless the task needs more of a shared resource (such as licences) than is available. Returns true if the task
    /// was dispatched.
    pub(super) fn order(&mut self, task: usize, rank: usize) -> bool {
        let graph = self.graph.clone();
        if !self.supply.take_limits(&graph.needs(task).limits) {
            return false;
        }
        let sources = graph.parents(task).map(|parent| match self.tasks[parent].state {
            State::Dispatched(source) | State::Done(source) => source,
            _ => rank,
        });
        let TaskRecord { attempts, exceeded, .. } = self.tasks[task];
        let place =
            self.supply.place(task).filter(|_| !self.tasks[task].is_urgent && !graph.needs(task).is_command);
        let sources = sources.collect();
        let (attempt, is_suspect) = (attempts.failed, attempts.is_suspect());
        let order = Order { task, attempt, exceeded, place, is_announced: false, is_suspect, sources };
        // If the task was announced to this rank, the order replaces the announcement. If it was announced to another rank, that announcement is
        // withdrawn.
        if self.tasks[task].announced_to == Some(rank) {
            self.tasks[task].announced_to = None;
            self.ranks[rank].announced -= 1;
        } else {
            self.take_announcement_back(task);
        }
        self.ranks[rank].orders.orders.push(order);
        self.ranks[rank].outstanding.insert(task);
        let was_urgent = std::mem::take(&mut self.tasks[task].is_urgent);
        self.tasks[task].state = State::Dispatched(rank);
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
                State::Dispatched(reader) if was_urgent => {
                    self.ranks[reader].orders.changed_sources.push((task, rank))
                }
                _ => {}
            }
        }
        true
    }

    /// Counts `bytes` for the value of a task on `rank`, instead of the bytes that were counted for it before. A value is counted only on the rank
    /// that computes it, because the master does not know which ranks have copies. Ranks themselves start tasks according to the memory that is
    /// really in use.
    pub(super) fn count(&mut self, task: usize, rank: usize, bytes: u64) {
        let before = std::mem::replace(&mut self.tasks[task].counted, bytes);
        self.ranks[rank].values = self.ranks[rank].values.saturating_sub(before).saturating_add(bytes);
    }

    /// Returns true if a task frees memory when it ends: its value is smaller than its inputs, where an input that several tasks still read counts
    /// only in part.
    fn frees_memory(&self, task: usize) -> bool {
        let share = |parent: usize| self.tasks[parent].counted / u64::from(self.tasks[parent].readers.max(1));
        let inputs: u64 = self.graph.parents(task).map(share).fold(0, u64::saturating_add);
        inputs > self.graph.output(task)
    }

    /// Announces tasks of the plan to ranks that have few announcements, so that the ranks can request inputs before the tasks are dispatched.
    fn announce(&mut self) {
        // Short tasks are dispatched far in advance, so announcements would add nothing.
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
            State::Dispatched(source) | State::Done(source) => source,
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

    pub(super) fn take_announcement_back(&mut self, task: usize) {
        if let Some(rank) = self.tasks[task].announced_to.take() {
            self.ranks[rank].announced -= 1;
            self.cancel(task, rank);
        }
    }

    /// Withdraws all announcements of tasks to ranks, because the plan is replaced or discarded.
    pub(super) fn take_announcements_back(&mut self) {
        (0..self.tasks.len()).for_each(|task| self.take_announcement_back(task));
    }

    /// Asks busy ranks to return tasks that they have not begun, as many as idle ranks could begin at once.
    fn recall(&mut self) {
        // No task is recalled if tasks are short, because they end before their rank could return them, or if there is a plan, because the plan
        // decides on which rank each task waits.
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

    /// Returns the rank with the most dispatched tasks whose inputs exist, and the last of these tasks; `None` if no rank has more of them than it
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

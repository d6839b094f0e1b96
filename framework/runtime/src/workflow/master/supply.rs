//! Tasks that the master of a workflow can dispatch: one pool for each rank, one for tasks that any rank may run, urgent tasks, and tasks that wait
//! for a shared resource. The workflow sets a limit for each shared resource, such as licences, and concurrent tasks use no more in total.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use crate::workflow::graph::Graph;

/// Sort key of a task: priority, position in the plan (without a plan, in the order of the longest paths to the end), and number of the task.
pub(super) type Key = (Reverse<i64>, usize, usize);

/// Tasks that can be dispatched now and that belong to one rank: the plan assigns them to the rank or, without a plan, most of their inputs
/// are there.
#[derive(Clone, Debug, Default)]
struct Pool {
    ready: BTreeSet<Key>,
    /// Tasks whose parents are all done and that free memory when they end.
    freeing: BTreeSet<Key>,
    /// Tasks whose parents are all dispatched or done, at least one of them not done.
    ahead: BTreeSet<Key>,
}

/// Assignment of tasks to ranks, and their sequence, in the active plan.
#[derive(Debug)]
struct Planned {
    rank_of: Vec<usize>,
    /// By rank: tasks of the plan that have not been dispatched, in the sequence of the plan.
    rest: Vec<BTreeSet<Key>>,
    /// By rank: tasks of the plan that may still be announced to the rank (it then knows, before they are dispatched, that it will run them), in the
    /// sequence of the plan.
    unannounced: Vec<VecDeque<usize>>,
}

/// Tasks that can be dispatched, and the available amounts of shared resources, such as licences or database connections.
#[derive(Debug)]
pub(in crate::workflow) struct Supply {
    keys: Vec<Key>,
    planned: Option<Planned>,
    /// Number of positions that all plans so far have assigned to tasks. The positions of a new plan are higher, so that tasks dispatched under an
    /// earlier plan run first.
    places: usize,
    pools: Vec<Pool>,
    /// Tasks that any rank may run, because none of their inputs is on a rank.
    anywhere: BTreeSet<Key>,
    /// Tasks that are dispatched before all others, because tasks that ranks already hold may wait for their values, for example after a dead rank
    /// has lost a value. A task stays in this list while too little of a shared resource, such as licences, is available for it.
    pub(super) urgent: Vec<usize>,
    /// By shared resource (such as licences): amount that is not in use, and tasks that wait for more.
    limits: Vec<(u64, BTreeSet<Key>)>,
    /// Tasks that have begun to wait for a shared resource (such as licences) since the last call of `take_held`, each with the index of the resource
    /// in `limits`; `None` without an event log.
    held: Option<Vec<(usize, usize)>>,
}

impl Supply {
    /// Creates an empty supply without a plan. Tasks are sorted by the length of their path to the end of the workflow, longest first.
    pub(super) fn new(graph: &Graph, ranks: usize) -> Self {
        let mut levels = vec![0.0_f64; graph.len()];
        for &task in graph.dag.topological_order().iter().rev() {
            let below = graph.children(task).map(|child| levels[child]).fold(0.0, f64::max);
            levels[task] = below + graph.dag.work(task);
        }
        let mut sequence = graph.dag.topological_order().to_vec();
        sequence.sort_by(|&a, &b| levels[b].total_cmp(&levels[a]));
        let mut supply = Supply {
            keys: vec![(Reverse(0), 0, 0); graph.len()],
            planned: None,
            places: 0,
            pools: vec![Pool::default(); ranks],
            anywhere: BTreeSet::new(),
            urgent: Vec::new(),
            limits: graph.limits.iter().map(|&amount| (amount, BTreeSet::new())).collect(),
            held: None,
        };
        for (place, &task) in sequence.iter().enumerate() {
            supply.keys[task] = (Reverse(graph.needs(task).priority), place, task);
        }
        supply
    }

    /// Activates a plan: each task belongs to its rank in the plan, in the sequence of the plan. Forgets which tasks can be dispatched; the caller
    /// adds them again.
    pub(super) fn plan(&mut self, graph: &Graph, processor_of: &[usize], sequence: &[usize]) {
        self.clear();
        let mut rest = vec![BTreeSet::new(); self.pools.len()];
        for (place, task) in (self.places..).zip(by_priority(graph, sequence)) {
            self.keys[task] = (Reverse(0), place, task);
            rest[processor_of[task]].insert(self.keys[task]);
        }
        self.places += sequence.len();
        let tasks = |rest: &BTreeSet<Key>| rest.iter().map(|key| key.2).collect();
        let unannounced = rest.iter().map(tasks).collect();
        self.planned = Some(Planned { rank_of: processor_of.to_vec(), rest, unannounced });
    }

    /// Discards the plan; then any rank may run any task.
    pub(super) fn unplan(&mut self, graph: &Graph) {
        self.planned = None;
        self.keys.iter_mut().for_each(|key| key.0 = Reverse(graph.needs(key.2).priority));
    }

    /// Returns the position of a task in the plan, if there is one. A rank begins its tasks in the order of their positions.
    pub(super) fn place(&self, task: usize) -> Option<usize> {
        self.planned.as_ref().map(|_| self.keys[task].1)
    }

    pub(super) fn rank_of(&self, task: usize) -> Option<usize> {
        self.planned.as_ref().map(|planned| planned.rank_of[task])
    }

    /// Returns the next task, in the sequence of the plan, of which a rank may be informed before it is dispatched (announced). Each task is
    /// returned once.
    pub(super) fn next_to_announce(&mut self, rank: usize) -> Option<usize> {
        self.planned.as_mut()?.unannounced[rank].pop_front()
    }

    pub(super) fn is_planned(&self) -> bool {
        self.planned.is_some()
    }

    pub(super) fn key(&self, task: usize) -> Key {
        self.keys[task]
    }

    pub(super) fn clear(&mut self) {
        self.pools.fill(Pool::default());
        self.anywhere.clear();
        self.urgent.clear();
        self.limits.iter_mut().for_each(|(_, waiting)| waiting.clear());
    }

    /// Occupies the shared resources (such as licences) that a task needs: all `amounts` or, if one is not available, none. Returns true if all were
    /// available.
    pub(super) fn take_limits(&mut self, amounts: &[(usize, u64)]) -> bool {
        let fits = self.short_of(amounts).is_none();
        if fits {
            amounts.iter().for_each(|&(limit, amount)| self.limits[limit].0 -= amount);
        }
        fits
    }

    /// Returns the index of the first shared resource (such as licences) of which less is available than a task needs. `amounts` contains the index
    /// of each resource that the task needs, and the needed amount.
    fn short_of(&self, amounts: &[(usize, u64)]) -> Option<usize> {
        amounts.iter().find(|&&(limit, amount)| self.limits[limit].0 < amount).map(|&(limit, _)| limit)
    }

    /// Adds a task to those that wait for a shared resource (such as licences). The resource is the first one of which less is available than the
    /// task needs.
    pub(super) fn wait(&mut self, task: usize, amounts: &[(usize, u64)]) {
        let Some(limit) = self.short_of(amounts) else { return };
        self.limits[limit].1.insert(self.keys[task]);
        if let Some(held) = &mut self.held {
            held.push((task, limit));
        }
    }

    /// Releases the shared resources (such as licences) of a task. Returns tasks that have waited for these resources, at most as many as can run
    /// with the released amounts.
    pub(super) fn release_limits(&mut self, amounts: &[(usize, u64)]) -> Vec<usize> {
        let mut woken = Vec::new();
        for &(limit, amount) in amounts {
            let (left, waiting) = &mut self.limits[limit];
            *left += amount;
            for _ in 0..amount {
                let Some((_, _, task)) = waiting.pop_first() else { break };
                woken.push(task);
            }
        }
        woken
    }

    pub(in crate::workflow) fn record_held(&mut self) {
        self.held = Some(Vec::new());
    }

    /// Returns the tasks that have begun to wait for a shared resource (such as licences) since the last call, each with the index of the resource in
    /// `limits`.
    pub(in crate::workflow) fn take_held(&mut self) -> Vec<(usize, usize)> {
        self.held.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Adds a task whose parents are all dispatched or done, or moves it to the ready tasks when all parents are done. `home` is the rank with most
    /// of the task's inputs; `is_freeing` is true if the task frees memory when it ends.
    pub(super) fn add(&mut self, task: usize, is_ready: bool, is_freeing: bool, home: Option<usize>) {
        let key = self.keys[task];
        let home = self.planned.as_ref().map(|planned| planned.rank_of[task]).or(home);
        let Some(home) = home else {
            self.anywhere.insert(key);
            return;
        };
        let pool = &mut self.pools[home];
        if is_ready {
            pool.ahead.remove(&key);
            pool.ready.insert(key);
            if is_freeing {
                pool.freeing.insert(key);
            }
        } else {
            pool.ahead.insert(key);
        }
    }

    /// Removes and returns the next task to dispatch to a rank. With a plan, this is the first task in the rank's sequence for which `is_waiting`
    /// returns true, if it can be dispatched now. Without a plan, a rank that `is_idle` may take a task that belongs to another rank.
    pub(super) fn take(
        &mut self,
        rank: usize,
        is_idle: bool,
        is_waiting: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(key) = self.first(rank) {
            if let Some(Planned { rest, .. }) = &mut self.planned {
                // Tasks that the plan has put before the found task in the rank's sequence, but that are no longer waiting, are skipped:
                // they were dispatched, have failed, or were done by an earlier run.
                while let Some(&next) = rest[rank].first()
                    && (next.1 < key.1 || next == key)
                {
                    if next != key && is_waiting(next.2) {
                        return None;
                    }
                    rest[rank].pop_first();
                }
            }
            return Some(self.remove(rank, key));
        }
        if !is_idle || self.planned.is_some() {
            return None;
        }
        let longest = (0..self.pools.len()).max_by_key(|&other| self.pools[other].ready.len())?;
        let key = self.pools[longest].ready.first().copied()?;
        Some(self.remove(longest, key))
    }

    /// Removes and returns the next task for a rank that is short of memory, without a plan: a task that frees memory and belongs to the rank or,
    /// if the rank `is_idle`, to another rank, unless a task of higher priority comes first. Only an idle rank gets a task that frees no memory.
    pub(super) fn take_when_short(&mut self, rank: usize, is_idle: bool) -> Option<usize> {
        let first_of = |other: usize| Some((*self.pools[other].freeing.first()?, other));
        let others =
            (0..self.pools.len()).filter(|_| is_idle).max_by_key(|&other| self.pools[other].freeing.len());
        let freeing = first_of(rank).or_else(|| others.and_then(first_of));
        match freeing.filter(|(key, _)| self.first(rank).is_none_or(|first| key.0 <= first.0)) {
            Some((key, home)) => Some(self.remove(home, key)),
            None if is_idle => self.take(rank, is_idle, |_| true),
            None => None,
        }
    }

    /// Returns the first task, by sort key, among those that belong to the rank and those that any rank may run.
    fn first(&self, rank: usize) -> Option<Key> {
        let Pool { ready, ahead, .. } = &self.pools[rank];
        [ready.first(), ahead.first(), self.anywhere.first()].into_iter().flatten().min().copied()
    }

    /// Removes a task from the tasks that can be dispatched, and returns its number. `rank` is the rank to which the task belongs; `None` if any rank
    /// may run it.
    fn remove(&mut self, rank: usize, key: Key) -> usize {
        let pool = &mut self.pools[rank];
        pool.freeing.remove(&key);
        let _ = pool.ready.remove(&key) || pool.ahead.remove(&key) || self.anywhere.remove(&key);
        key.2
    }
}

/// Returns the tasks in the sequence of a plan, but with tasks of higher priority moved forward, as far as they stay behind their parents.
fn by_priority(graph: &Graph, sequence: &[usize]) -> Vec<usize> {
    let mut place = vec![0; graph.len()];
    sequence.iter().enumerate().for_each(|(at, &task)| place[task] = at);
    let mut missing: Vec<usize> = (0..graph.len()).map(|task| graph.parents(task).len()).collect();
    let key = |task: usize| Reverse((Reverse(graph.needs(task).priority), place[task], task));
    let mut open: BinaryHeap<_> = (0..graph.len()).filter(|&task| missing[task] == 0).map(key).collect();
    let mut order = Vec::with_capacity(graph.len());
    while let Some(Reverse((.., task))) = open.pop() {
        order.push(task);
        for child in graph.children(task) {
            missing[child] -= 1;
            if missing[child] == 0 {
                open.push(key(child));
            }
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use armature_planner::workflow::TaskMemory;
    use armature_workflow_files::{Action, Description, Task};

    use super::*;

    #[test]
    fn unsatisfied_task_takes_no_limits_and_waits() {
        let mut builder = Description::builder("limits");
        builder.limit("few", 3);
        builder.limit("one", 1);
        builder.task(Task::new("task", Action::Closure("c".into())));
        let graph = Graph::new(&builder.build().unwrap(), 1, TaskMemory::Additive).unwrap();
        let mut supply = Supply::new(&graph, 1);
        assert!(supply.take_limits(&[(0, 2), (1, 1)]));
        let two = [(0, 1), (1, 1)];
        assert!(!supply.take_limits(&two));
        supply.record_held();
        supply.wait(0, &two);
        assert_eq!(supply.take_held(), [(0, 1)]);
        assert!(supply.take_limits(&[(0, 1)]));
        assert!(supply.release_limits(&[(0, 2)]).is_empty());
        assert_eq!(supply.release_limits(&[(1, 1)]), [0]);
        assert_eq!(supply.limits.iter().map(|(left, _)| *left).collect::<Vec<_>>(), [2, 1]);
    }
}

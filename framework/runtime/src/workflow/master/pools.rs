//! Tasks that can be ordered: for each rank those that are to be run there, and those that any rank may run.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use crate::workflow::graph::Graph;

/// The place of a task among those that can be ordered: by priority, then by its place in the plan; with the task.
pub(super) type Key = (Reverse<i64>, usize, usize);

/// Those of one rank.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// All of whose inputs are there.
    ready: BTreeSet<Key>,
    /// Those of them after which less memory is in use.
    freeing: BTreeSet<Key>,
    /// Some of whose inputs are still to be made, by tasks that are ordered.
    ahead: BTreeSet<Key>,
}

/// A plan.
#[derive(Debug)]
struct Planned {
    /// By task: the rank that runs it.
    rank_of: Vec<usize>,
    /// By rank: what it has not been given, of which the first comes next.
    rest: Vec<BTreeSet<Key>>,
    /// By rank: what has not been announced to it either.
    unannounced: Vec<VecDeque<usize>>,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Pools {
    /// By task.
    keys: Vec<Key>,
    planned: Option<Planned>,
    /// Places that plans have had so far: those of another plan come behind.
    places: usize,
    pools: Vec<Pool>,
    /// Tasks that are as good on any rank.
    anywhere: BTreeSet<Key>,
}

impl Pools {
    /// Without a plan: those from which the longest way leads to the end come first.
    pub(super) fn new(graph: &Graph, ranks: usize) -> Self {
        let mut levels = vec![0.0_f64; graph.len()];
        for &task in graph.dag.topological_order().iter().rev() {
            let below = graph.children(task).map(|child| levels[child]).fold(0.0, f64::max);
            levels[task] = below + graph.dag.work(task);
        }
        let mut sequence = graph.dag.topological_order().to_vec();
        sequence.sort_by(|&a, &b| levels[b].total_cmp(&levels[a]));
        let mut pools = Pools {
            keys: vec![(Reverse(0), 0, 0); graph.len()],
            planned: None,
            places: 0,
            pools: vec![Pool::default(); ranks],
            anywhere: BTreeSet::new(),
        };
        for (place, &task) in sequence.iter().enumerate() {
            pools.keys[task] = (Reverse(graph.needs(task).priority), place, task);
        }
        pools
    }

    /// From now on tasks are run where and in the order in which a plan says. To be filled anew.
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

    /// Forgets the plan: ranks are as good as each other.
    pub(super) fn unplan(&mut self, graph: &Graph) {
        self.planned = None;
        self.keys.iter_mut().for_each(|key| key.0 = Reverse(graph.needs(key.2).priority));
    }

    /// The place of a task in the plan, if there is one: among those of one rank it is to begin in this order.
    pub(super) fn place(&self, task: usize) -> Option<usize> {
        self.planned.as_ref().map(|_| self.keys[task].1)
    }

    /// The rank that is to run a task by the plan, if there is one.
    pub(super) fn rank_of(&self, task: usize) -> Option<usize> {
        self.planned.as_ref().map(|planned| planned.rank_of[task])
    }

    /// What comes next on a rank by the plan of all that has not been taken so.
    pub(super) fn next_to_announce(&mut self, rank: usize) -> Option<usize> {
        self.planned.as_mut()?.unannounced[rank].pop_front()
    }

    /// Whether there is a plan.
    pub(super) fn is_planned(&self) -> bool {
        self.planned.is_some()
    }

    /// The place of a task.
    pub(super) fn key(&self, task: usize) -> Key {
        self.keys[task]
    }

    pub(super) fn clear(&mut self) {
        self.pools.fill(Pool::default());
        self.anywhere.clear();
    }

    /// Adds a task, or moves it where it belongs now. `home` is the rank that has most of its inputs; `is_freeing` says that less
    /// memory is in use after it.
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

    /// The next task for a rank, by the plan only what comes next there of those for which it `is_waiting`; `is_idle` says that the rank
    /// has too little to do, and may take what was meant for another.
    pub(super) fn take(
        &mut self,
        rank: usize,
        is_idle: bool,
        is_waiting: impl Fn(usize) -> bool,
    ) -> Option<usize> {
        if let Some(key) = self.first(rank) {
            if let Some(Planned { rest, .. }) = &mut self.planned {
                // What has been given, has failed or was known.
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

    /// The next task for a rank that is short of memory, where there is no plan: one that frees memory, the rank's own or
    /// another's, unless a task of higher priority waits. Only a rank that `is_idle` takes any other.
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

    /// What comes next of all that a rank may take.
    fn first(&self, rank: usize) -> Option<Key> {
        let Pool { ready, ahead, .. } = &self.pools[rank];
        [ready.first(), ahead.first(), self.anywhere.first()].into_iter().flatten().min().copied()
    }

    /// Removes a task from the pools, where it is in that of `rank` or good anywhere. Returns it.
    fn remove(&mut self, rank: usize, key: Key) -> usize {
        let pool = &mut self.pools[rank];
        pool.freeing.remove(&key);
        let _ = pool.ready.remove(&key) || pool.ahead.remove(&key) || self.anywhere.remove(&key);
        key.2
    }
}

/// Tasks in the sequence of a plan, but those of higher priority before others, as far as nobody comes before a task that it reads from.
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

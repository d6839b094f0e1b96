//! Tasks that can be ordered: for each rank those that are to be run there, and those that any rank may run.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::workflow::graph::Graph;

/// The place of a task among those that can be ordered: by priority, then by its place in the plan; with the task.
pub(super) type Key = (Reverse<i64>, usize, usize);

/// Those of one rank.
#[derive(Clone, Debug, Default)]
struct Pool {
    /// All of whose inputs are there.
    ready: BTreeSet<Key>,
    /// Some of whose inputs are still to be made, by tasks that are ordered.
    ahead: BTreeSet<Key>,
}

/// See the module's page.
#[derive(Debug)]
pub(super) struct Pools {
    /// By task.
    keys: Vec<Key>,
    /// By task: the rank that the plan says.
    planned: Option<Vec<usize>>,
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
            pools: vec![Pool::default(); ranks],
            anywhere: BTreeSet::new(),
        };
        pools.set_sequence(graph, &sequence);
        pools
    }

    fn set_sequence(&mut self, graph: &Graph, sequence: &[usize]) {
        for (place, &task) in sequence.iter().enumerate() {
            self.keys[task] = (Reverse(graph.needs(task).priority), place, task);
        }
    }

    /// From now on tasks are run where and in the order in which a plan says. To be filled anew.
    pub(super) fn plan(&mut self, graph: &Graph, processor_of: &[usize], sequence: &[usize]) {
        self.clear();
        self.set_sequence(graph, sequence);
        self.planned = Some(processor_of.to_vec());
    }

    /// Forgets the plan: ranks are as good as each other.
    pub(super) fn unplan(&mut self) {
        self.planned = None;
    }

    /// The place of a task.
    pub(super) fn key(&self, task: usize) -> Key {
        self.keys[task]
    }

    pub(super) fn clear(&mut self) {
        self.pools.fill(Pool::default());
        self.anywhere.clear();
    }

    /// Adds a task, or moves it where it belongs now. `home` is the rank that has most of its inputs.
    pub(super) fn add(&mut self, task: usize, is_ready: bool, home: Option<usize>) {
        let key = self.keys[task];
        let home = self.planned.as_ref().map(|planned| planned[task]).or(home);
        let Some(home) = home else {
            self.anywhere.insert(key);
            return;
        };
        let pool = &mut self.pools[home];
        if is_ready {
            pool.ahead.remove(&key);
            pool.ready.insert(key);
        } else {
            pool.ahead.insert(key);
        }
    }

    /// The next task for a rank; `is_idle` says that it has nothing to do, and may take what was meant for another.
    pub(super) fn take(&mut self, rank: usize, is_idle: bool) -> Option<usize> {
        let Pool { ready, ahead } = &self.pools[rank];
        let firsts = [ready.first(), ahead.first(), self.anywhere.first()];
        if let Some(&key) = firsts.into_iter().flatten().min() {
            let pool = &mut self.pools[rank];
            let _ = pool.ready.remove(&key) || pool.ahead.remove(&key) || self.anywhere.remove(&key);
            return Some(key.2);
        }
        if !is_idle || self.planned.is_some() {
            return None;
        }
        let longest = self.pools.iter_mut().max_by_key(|pool| pool.ready.len())?;
        longest.ready.pop_first().map(|key| key.2)
    }
}

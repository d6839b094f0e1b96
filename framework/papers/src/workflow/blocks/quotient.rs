//! Graph whose vertices are blocks of tasks, and the makespan of the blocks.

use std::collections::BTreeMap;

use armature_planner::workflow::{Cluster, Workflow};

/// Graph of blocks of tasks, with the processors of some blocks and the sizes of the files between blocks.
#[derive(Clone)]
pub(super) struct Quotient<'a> {
    graph: &'a Workflow,
    cluster: &'a Cluster,
    nodes: Vec<Node>,
    block_of: Vec<usize>,
}

/// Block of tasks. A block that was merged into another block has no work and no neighbours.
#[derive(Clone, Default)]
struct Node {
    alive: bool,
    work: f64,
    processor: Option<usize>,
    outputs: BTreeMap<usize, u64>,
    inputs: BTreeMap<usize, u64>,
}

/// Returns the longer of two paths of blocks of tasks, or the first one if their lengths are equal. A path is
/// represented by its length and by its next block.
pub(super) fn longer(best: Option<(f64, usize)>, next: (f64, usize)) -> Option<(f64, usize)> {
    match best {
        Some(best) if best.0 >= next.0 => Some(best),
        _ => Some(next),
    }
}

/// Several blocks of tasks that count as a single block on one processor.
#[derive(Clone, Copy)]
pub(super) struct Merged<'a> {
    pub(super) blocks: &'a [usize],
    pub(super) processor: usize,
}

impl<'a> Quotient<'a> {
    pub(super) fn new<'t>(
        graph: &'a Workflow,
        cluster: &'a Cluster,
        blocks: impl Iterator<Item = &'t [usize]>,
    ) -> Self {
        let mut quotient = Quotient { graph, cluster, nodes: Vec::new(), block_of: vec![0; graph.len()] };
        for tasks in blocks {
            quotient.add(tasks);
        }
        for edge in graph.edges() {
            quotient.add_edge(quotient.block_of[edge.from], quotient.block_of[edge.to], edge.size);
        }
        quotient
    }

    fn add(&mut self, tasks: &[usize]) {
        self.take(self.nodes.len(), tasks);
        let work = tasks.iter().map(|&task| self.graph.work(task)).sum();
        self.nodes.push(Node { alive: true, work, ..Node::default() });
    }

    fn take(&mut self, block: usize, tasks: &[usize]) {
        for &task in tasks {
            self.block_of[task] = block;
        }
    }

    pub(super) fn blocks(&self) -> impl DoubleEndedIterator<Item = usize> {
        (0..self.nodes.len()).filter(|&block| self.nodes[block].alive)
    }

    pub(super) fn is_alive(&self, block: usize) -> bool {
        self.nodes[block].alive
    }

    pub(super) fn processor(&self, block: usize) -> Option<usize> {
        self.nodes[block].processor
    }

    pub(super) fn set_processor(&mut self, block: usize, processor: Option<usize>) {
        self.nodes[block].processor = processor;
    }

    /// Returns the blocks of tasks that receive files from `block` or send files to it, possibly with duplicates.
    pub(super) fn neighbours(&self, block: usize) -> impl Iterator<Item = usize> {
        self.nodes[block].inputs.keys().chain(self.nodes[block].outputs.keys()).copied()
    }

    /// Returns the other blocks of tasks that read files of one of two blocks and write files for one of them. If a
    /// merger of the two blocks causes a cycle of two blocks, the cycle passes through one of the returned blocks.
    pub(super) fn between(&self, one: usize, other: usize) -> Vec<usize> {
        let inside = |block: usize| block == one || block == other;
        let reads = |block: usize| self.nodes[block].inputs.keys().any(|&from| inside(from));
        let mut between: Vec<usize> = [one, other]
            .iter()
            .flat_map(|&block| self.nodes[block].inputs.keys().copied())
            .filter(|&block| !inside(block) && reads(block))
            .collect();
        between.sort_unstable();
        between.dedup();
        between
    }

    /// Merges blocks of tasks into the first of them, on the given processor. `tasks` are the tasks of all merged
    /// blocks.
    pub(super) fn merge(&mut self, Merged { blocks, processor }: Merged<'_>, tasks: &[usize]) {
        let first = blocks[0];
        for &block in &blocks[1..] {
            let (work, inputs, outputs) = self.remove(block);
            self.nodes[first].work += work;
            for (from, size) in inputs {
                self.add_edge(from, first, size);
            }
            for (to, size) in outputs {
                self.add_edge(first, to, size);
            }
        }
        self.take(first, tasks);
        self.nodes[first].processor = Some(processor);
    }

    /// Replaces a block of tasks by two blocks without processors, whose tasks are in `halves` and which get the next
    /// two numbers.
    pub(super) fn divide(&mut self, block: usize, halves: &[Vec<usize>; 2]) {
        self.remove(block);
        let first = self.nodes.len();
        for tasks in halves {
            self.add(tasks);
        }
        let graph = self.graph;
        for &task in halves.iter().flatten() {
            let block = self.block_of[task];
            for edge in graph.inputs(task) {
                self.add_edge(self.block_of[edge.from], block, edge.size);
            }
            for edge in graph.outputs(task) {
                let to = self.block_of[edge.to];
                // If the task at the end of the edge is in a half of the divided block, the edge has already been
                // added as an input of this half.
                if to < first {
                    self.add_edge(block, to, edge.size);
                }
            }
        }
    }

    fn remove(&mut self, block: usize) -> (f64, BTreeMap<usize, u64>, BTreeMap<usize, u64>) {
        let Node { work, inputs, outputs, .. } = std::mem::take(&mut self.nodes[block]);
        for from in inputs.keys() {
            self.nodes[*from].outputs.remove(&block);
        }
        for to in outputs.keys() {
            self.nodes[*to].inputs.remove(&block);
        }
        (work, inputs, outputs)
    }

    fn add_edge(&mut self, from: usize, to: usize, size: u64) {
        if from != to {
            *self.nodes[from].outputs.entry(to).or_default() += size;
            *self.nodes[to].inputs.entry(from).or_default() += size;
        }
    }

    /// Returns the makespan that would result if the given blocks of tasks were merged; `None` if blocks would then
    /// depend on each other in a cycle. Blocks without a processor count with a speed of 1 and the default bandwidth.
    pub(super) fn makespan_if(&self, merged: Merged<'_>) -> Option<f64> {
        Some(self.bottom_weights(Some(merged))?.into_iter().fold(0.0, f64::max))
    }

    /// Returns, in order, the blocks of tasks on the longest path; of equally long paths, the one with the smallest
    /// block numbers.
    pub(super) fn critical_path(&self) -> Vec<usize> {
        let bottom = self.bottom_weights(None).unwrap_or_default();
        let mut path = Vec::new();
        let mut at = self.blocks().map(|block| (bottom[block], block)).fold(None, longer);
        while let Some((_, block)) = at {
            path.push(block);
            let node = &self.nodes[block];
            at = node
                .outputs
                .iter()
                .map(|(&to, &size)| {
                    (self.transfer(node.processor, self.nodes[to].processor, size) + bottom[to], to)
                })
                .fold(None, longer);
        }
        path
    }

    fn speed(&self, processor: Option<usize>) -> f64 {
        processor.map_or(1.0, |processor| self.cluster.processors()[processor].speed)
    }

    fn transfer(&self, from: Option<usize>, to: Option<usize>, size: u64) -> f64 {
        match (from, to) {
            (Some(from), Some(to)) => self.cluster.transfer_time(from, to, size),
            _ => size as f64 / self.cluster.default_bandwidth(),
        }
    }

    /// Returns for each block of tasks the time from its start to the end of all blocks that depend on it: equation 1
    /// of Kulagina et al. The blocks in `merged` count as one block, with the number of the first of them.
    fn bottom_weights(&self, merged: Option<Merged<'_>>) -> Option<Vec<f64>> {
        let is_merged = |block: usize| merged.is_some_and(|merged| merged.blocks.contains(&block));
        let seen_as = |block: usize| match merged {
            Some(merged) if merged.blocks.contains(&block) => merged.blocks[0],
            _ => block,
        };
        let processor = |block: usize| match merged {
            Some(merged) if is_merged(block) => Some(merged.processor),
            _ => self.nodes[block].processor,
        };
        let mut missing = vec![0_usize; self.nodes.len()];
        let mut count = 0;
        for block in self.blocks() {
            count += usize::from(seen_as(block) == block);
            missing[seen_as(block)] +=
                self.nodes[block].outputs.keys().filter(|&&to| seen_as(to) != seen_as(block)).count();
        }
        let mut bottom = vec![0.0_f64; self.nodes.len()];
        let mut ready: Vec<usize> =
            self.blocks().filter(|&block| seen_as(block) == block && missing[block] == 0).collect();
        while let Some(block) = ready.pop() {
            count -= 1;
            let after = |to: usize, size: u64, bottom: &[f64]| {
                self.transfer(processor(block), processor(to), size) + bottom[to]
            };
            let mut longest = 0.0_f64;
            let mut work = 0.0;
            let mut pass_on = |member: usize| {
                for &from in self.nodes[member].inputs.keys() {
                    let from = seen_as(from);
                    if from != block {
                        missing[from] -= 1;
                        if missing[from] == 0 {
                            ready.push(from);
                        }
                    }
                }
            };
            if is_merged(block) {
                let mut outputs = BTreeMap::<usize, u64>::new();
                for &member in merged.iter().flat_map(|merged| merged.blocks) {
                    work += self.nodes[member].work;
                    for (&to, &size) in self.nodes[member].outputs.iter().filter(|(to, _)| !is_merged(**to)) {
                        *outputs.entry(to).or_default() += size;
                    }
                    pass_on(member);
                }
                for (to, size) in outputs {
                    longest = longest.max(after(to, size, &bottom));
                }
            } else {
                work = self.nodes[block].work;
                let mut to_merged = None;
                for (&to, &size) in &self.nodes[block].outputs {
                    if is_merged(to) {
                        *to_merged.get_or_insert(0) += size;
                    } else {
                        longest = longest.max(after(to, size, &bottom));
                    }
                }
                if let (Some(size), Some(merged)) = (to_merged, merged) {
                    longest = longest.max(after(merged.blocks[0], size, &bottom));
                }
                pass_on(block);
            }
            bottom[block] = work / self.speed(processor(block)) + longest;
        }
        (count == 0).then_some(bottom)
    }
}

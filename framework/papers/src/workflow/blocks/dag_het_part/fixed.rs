//! Graph of blocks of tasks that are not changed any more. It computes the makespan quickly for any assignment of the
//! blocks to processors.

use armature_planner::workflow::{Cluster, Workflow};

use crate::workflow::blocks::placement::Placed;
use crate::workflow::blocks::quotient::longer;

/// Blocks of tasks in an order in which they can run, with the sizes of the files between them.
pub(super) struct Fixed<'a> {
    cluster: &'a Cluster,
    works: Vec<f64>,
    /// For each block of tasks, the blocks that read its files, with the sizes of the files.
    outputs: Vec<Vec<(usize, u64)>>,
    /// Blocks of tasks, each before the blocks whose files it reads.
    backwards: Vec<usize>,
}

impl<'a> Fixed<'a> {
    pub(super) fn new(graph: &Workflow, cluster: &'a Cluster, blocks: &[Placed]) -> Self {
        let mut block_of = vec![0; graph.len()];
        for (block, placed) in blocks.iter().enumerate() {
            for &task in &placed.traversal.order {
                block_of[task] = block;
            }
        }
        let mut works = vec![0.0; blocks.len()];
        let mut outputs = vec![Vec::new(); blocks.len()];
        for edge in graph.edges() {
            let (from, to) = (block_of[edge.from], block_of[edge.to]);
            if from != to {
                outputs[from].push((to, edge.size));
            }
        }
        for (block, placed) in blocks.iter().enumerate() {
            works[block] = placed.traversal.order.iter().map(|&task| graph.work(task)).sum();
            outputs[block].sort_unstable_by_key(|&(to, _)| to);
            outputs[block].dedup_by(|next, kept| {
                let same = next.0 == kept.0;
                if same {
                    kept.1 += next.1;
                }
                same
            });
        }
        let backwards = backwards(&outputs);
        Fixed { cluster, works, outputs, backwards }
    }

    /// Returns for each block of tasks the time from its start to the end of all blocks that depend on it, with block
    /// `b` on processor `processors[b]`.
    fn bottom_weights(&self, processors: &[usize]) -> Vec<f64> {
        let mut bottom = vec![0.0; self.works.len()];
        for &block in &self.backwards {
            let after = self.outputs[block]
                .iter()
                .map(|&(to, size)| self.after(processors, &bottom, block, to, size))
                .fold(0.0, f64::max);
            bottom[block] = self.works[block] / self.cluster.processors()[processors[block]].speed + after;
        }
        bottom
    }

    fn after(&self, processors: &[usize], bottom: &[f64], block: usize, to: usize, size: u64) -> f64 {
        self.cluster.transfer_time(processors[block], processors[to], size) + bottom[to]
    }

    /// Returns the time at which the last block of tasks ends: equation 2 of the paper of Kulagina et al.
    pub(super) fn makespan(&self, processors: &[usize]) -> f64 {
        self.bottom_weights(processors).into_iter().fold(0.0, f64::max)
    }

    /// Returns the blocks of tasks on the longest path; of equally long paths, the one with the smallest block
    /// numbers.
    pub(super) fn critical_path(&self, processors: &[usize]) -> Vec<usize> {
        let bottom = self.bottom_weights(processors);
        let mut path = Vec::new();
        let mut at = bottom.iter().enumerate().map(|(block, &time)| (time, block)).fold(None, longer);
        while let Some((_, block)) = at {
            path.push(block);
            let next = self.outputs[block].iter();
            at = next
                .map(|&(to, size)| (self.after(processors, &bottom, block, to, size), to))
                .fold(None, longer);
        }
        path
    }
}

fn backwards(outputs: &[Vec<(usize, u64)>]) -> Vec<usize> {
    let mut missing = vec![0; outputs.len()];
    for &(to, _) in outputs.iter().flatten() {
        missing[to] += 1;
    }
    let mut order: Vec<usize> = (0..outputs.len()).filter(|&block| missing[block] == 0).collect();
    let mut next = 0;
    while let Some(&block) = order.get(next) {
        for &(to, _) in &outputs[block] {
            missing[to] -= 1;
            if missing[to] == 0 {
                order.push(to);
            }
        }
        next += 1;
    }
    order.reverse();
    order
}

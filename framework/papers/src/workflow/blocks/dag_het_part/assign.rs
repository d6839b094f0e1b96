//! Step 2 of the planner DagHetPart: blocks of tasks are assigned to processors with enough memory.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use armature_planner::random::Random;
use armature_planner::workflow::Traversal;

use super::problem::Problem;
use crate::workflow::blocks::dag_het_mem::by_memory;
use crate::workflow::blocks::placement::Placed;
use crate::workflow::least_memory;
use crate::workflow::partition::{Dag, halves};

/// Blocks of tasks with a processor each, and blocks for which no processor was found.
pub(super) struct Assigned {
    pub(super) placed: Vec<Placed>,
    pub(super) left: Vec<Traversal>,
}

/// Numbers of blocks of tasks, the largest memory need first; of blocks with equal needs, the smaller number first.
type Queue = BinaryHeap<(u64, Reverse<usize>)>;

/// Assigns blocks of tasks to processors: repeatedly the block with the largest memory need to the free processor
/// with the most memory. A block that does not fit is divided while there are fewer than `most_blocks` blocks.
///
/// In the paper of Kulagina et al. the number of blocks is unlimited, and remaining blocks are divided until they fit
/// the smallest memory, which gives thousands of blocks of single tasks. Here [`merge`](super::merge::merge) divides
/// the blocks that it cannot merge.
pub(super) fn assign(
    problem: Problem<'_>,
    blocks: Vec<Traversal>,
    most_blocks: usize,
    random: &mut Random,
) -> Assigned {
    let mut fitting = Fitting {
        problem,
        random,
        most_blocks: most_blocks.max(blocks.len()),
        count: blocks.len(),
        blocks: Vec::new(),
        queue: Queue::new(),
        left: Vec::new(),
    };
    for block in blocks {
        fitting.add(block);
    }
    let processors = by_memory(problem.cluster);
    let mut placed = Vec::new();
    while let Some(&processor) = processors.get(placed.len()) {
        let Some(block) = fitting.next() else { break };
        if let Some(traversal) = fitting.fit(block, problem.cluster.processors()[processor].memory) {
            placed.push(Placed { processor, traversal });
        }
    }
    while let Some(block) = fitting.next() {
        fitting.left.push(block);
    }
    Assigned { placed, left: fitting.left }
}

/// Divides a block of tasks into two blocks of about equal work; the block must have several tasks.
pub(super) fn divide(problem: Problem<'_>, block: Traversal, random: &mut Random) -> [Traversal; 2] {
    let mut tasks = block.order;
    tasks.sort_unstable();
    halves(&Dag::of_tasks(problem.graph, &tasks), random).map(|half| {
        let half: Vec<usize> = half.into_iter().map(|vertex| tasks[vertex]).collect();
        least_memory(problem.graph, &half, problem.model)
    })
}

struct Fitting<'a> {
    problem: Problem<'a>,
    random: &'a mut Random,
    most_blocks: usize,
    /// Number of blocks of tasks; of a divided block, only the halves count.
    count: usize,
    /// All blocks of tasks by number; a block that was removed from the queue is replaced by an empty one.
    blocks: Vec<Traversal>,
    queue: Queue,
    left: Vec<Traversal>,
}

impl Fitting<'_> {
    fn add(&mut self, traversal: Traversal) {
        self.queue.push((traversal.peak, Reverse(self.blocks.len())));
        self.blocks.push(traversal);
    }

    fn next(&mut self) -> Option<Traversal> {
        let (_, Reverse(block)) = self.queue.pop()?;
        Some(std::mem::take(&mut self.blocks[block]))
    }

    /// Returns the block of tasks if its memory need is at most `memory`. Otherwise divides the block and queues its
    /// halves. A block of one task, and any block when there are already `most_blocks` blocks, is added to `left`
    /// instead.
    fn fit(&mut self, block: Traversal, memory: u64) -> Option<Traversal> {
        if block.peak <= memory {
            return Some(block);
        }
        if block.order.len() == 1 || self.count == self.most_blocks {
            self.left.push(block);
            return None;
        }
        self.count += 1;
        for half in divide(self.problem, block, self.random) {
            self.add(half);
        }
        None
    }
}

//! Step 2: blocks go to processors that they fit.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::Problem;
use crate::random::Random;
use crate::workflow::blocks::dag_het_mem::by_memory;
use crate::workflow::blocks::placement::Placed;
use crate::workflow::partition::{Dag, halves};
use crate::workflow::traversal::Traversal;

/// Blocks on processors, and those for which there is none.
pub(super) struct Assigned {
    pub(super) placed: Vec<Placed>,
    pub(super) left: Vec<Traversal>,
}

/// Blocks by the memory that they need; of equal ones that which was there first.
type Queue = BinaryHeap<(u64, Reverse<usize>)>;

/// The block that needs most goes to the free processor with most memory, or is divided if it does not fit. What is left when
/// there is no free processor is divided until it fits the smallest memory of all.
pub(super) fn assign(problem: Problem<'_>, blocks: Vec<Vec<usize>>, random: &mut Random) -> Assigned {
    let mut fitting = Fitting { problem, random, blocks: Vec::new(), queue: Queue::new(), left: Vec::new() };
    for tasks in blocks {
        fitting.add(&tasks);
    }
    let processors = by_memory(problem.cluster);
    let mut placed = Vec::new();
    let memory = |processor: usize| problem.cluster.processors()[processor].memory;
    while let Some(&processor) = processors.get(placed.len()) {
        let Some(block) = fitting.next() else { break };
        if let Some(traversal) = fitting.fit(block, memory(processor)) {
            placed.push(Placed { processor, traversal });
        }
    }
    let smallest = processors.last().map_or(0, |&processor| memory(processor));
    while let Some(block) = fitting.next() {
        if let Some(traversal) = fitting.fit(block, smallest) {
            fitting.left.push(traversal);
        }
    }
    Assigned { placed, left: fitting.left }
}

struct Fitting<'a> {
    problem: Problem<'a>,
    random: &'a mut Random,
    blocks: Vec<Traversal>,
    queue: Queue,
    left: Vec<Traversal>,
}

impl Fitting<'_> {
    fn add(&mut self, tasks: &[usize]) {
        let traversal = Traversal::of(self.problem.graph, tasks, self.problem.model);
        self.queue.push((traversal.peak, Reverse(self.blocks.len())));
        self.blocks.push(traversal);
    }

    fn next(&mut self) -> Option<Traversal> {
        let (_, Reverse(block)) = self.queue.pop()?;
        Some(std::mem::replace(&mut self.blocks[block], Traversal { order: Vec::new(), peak: 0 }))
    }

    /// The block, if it fits so much memory. Otherwise it is divided and its parts are put back; a single task is left over.
    fn fit(&mut self, block: Traversal, memory: u64) -> Option<Traversal> {
        if block.peak <= memory {
            return Some(block);
        }
        if block.order.len() == 1 {
            self.left.push(block);
            return None;
        }
        let mut tasks = block.order;
        tasks.sort_unstable();
        for half in halves(&Dag::of_tasks(self.problem.graph, &tasks), self.random) {
            let half: Vec<usize> = half.into_iter().map(|vertex| tasks[vertex]).collect();
            self.add(&half);
        }
        None
    }
}

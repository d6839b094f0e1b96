//! Step 3 of the planner DagHetPart: blocks of tasks without a processor are merged with other blocks.

use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

use armature_planner::random::Random;
use armature_planner::workflow::Traversal;

use super::assign::{Assigned, divide};
use super::problem::Problem;
use crate::workflow::blocks::placement::Placed;
use crate::workflow::blocks::quotient::{Merged, Quotient};
use crate::workflow::least_memory;

/// Maximum number of retries of a block of tasks that cannot be merged, before the block is divided; from Kulagina et
/// al.
const MOST_RETRIES: usize = 2;

/// Gives all blocks of tasks a processor, by merging those without one with other blocks. Returns `None` if that is
/// impossible for a block.
///
/// Blocks with the largest memory needs come first. A block that cannot be merged is retried after all others if it
/// has a neighbour without a processor. If the retries fail as well, the block is divided.
pub(super) fn merge(
    problem: Problem<'_>,
    assigned: Assigned,
    most_blocks: usize,
    random: &mut Random,
) -> Option<Vec<Placed>> {
    let mut merging = Merging::new(problem, assigned);
    let mut first: BinaryHeap<(u64, Reverse<usize>)> =
        merging.unassigned().map(|block| (merging.traversals[block].peak, Reverse(block))).collect();
    let mut again = VecDeque::new();
    let largest = problem.cluster.largest_memory();
    while let Some((block, tries)) =
        first.pop().map(|(_, Reverse(block))| (block, 0)).or_else(|| again.pop_front())
    {
        if !merging.is_unassigned(block) || merging.place(block) {
            continue;
        }
        let adjacent = merging.quotient.neighbours(block).any(|other| merging.is_unassigned(other));
        let traversal = &merging.traversals[block];
        if adjacent && tries < MOST_RETRIES && traversal.peak <= largest {
            again.push_back((block, tries + 1));
        } else if traversal.order.len() > 1 && merging.quotient.blocks().count() < most_blocks {
            first.extend(merging.divide(block, random));
        } else {
            return None;
        }
    }
    Some(merging.placed())
}

struct Merging<'a> {
    problem: Problem<'a>,
    quotient: Quotient<'a>,
    traversals: Vec<Traversal>,
    free: BTreeSet<usize>,
}

/// Possible merger of several blocks of tasks, and the makespan after it. The merged block gets the number of the
/// first.
struct Choice {
    makespan: f64,
    blocks: Vec<usize>,
    processor: usize,
}

impl<'a> Merging<'a> {
    fn new(problem: Problem<'a>, Assigned { placed, left }: Assigned) -> Self {
        let (processors, mut traversals): (Vec<usize>, Vec<Traversal>) =
            placed.into_iter().map(|Placed { processor, traversal }| (processor, traversal)).unzip();
        traversals.extend(left);
        let tasks = traversals.iter().map(|traversal| &traversal.order[..]);
        let mut quotient = Quotient::new(problem.graph, problem.cluster, tasks);
        for (block, &processor) in processors.iter().enumerate() {
            quotient.set_processor(block, Some(processor));
        }
        let free = (0..problem.cluster.len()).filter(|processor| !processors.contains(processor)).collect();
        Merging { problem, quotient, traversals, free }
    }

    fn unassigned(&self) -> impl Iterator<Item = usize> {
        self.quotient.blocks().filter(|&block| self.is_unassigned(block))
    }

    fn is_unassigned(&self, block: usize) -> bool {
        self.quotient.is_alive(block) && self.quotient.processor(block).is_none()
    }

    /// Merges a block of tasks with the neighbour that gives the smallest makespan. Neighbours that are not on the
    /// critical path are tried first, then those that are. If no merger is possible, the block is assigned to a free
    /// processor. Returns true if the block has a processor.
    fn place(&mut self, block: usize) -> bool {
        let processors = self.problem.cluster.processors();
        // A neighbour's processor must have at least the memory that the block needs alone.
        let large = |other: usize| {
            let processor = self.quotient.processor(other);
            processor.is_some_and(|processor| processors[processor].memory >= self.traversals[block].peak)
        };
        let candidates: BTreeSet<usize> =
            self.quotient.neighbours(block).filter(|&other| large(other)).collect();
        let path = if candidates.is_empty() { Vec::new() } else { self.quotient.critical_path() };
        let (on_path, adjacent): (BTreeSet<usize>, BTreeSet<usize>) =
            candidates.into_iter().partition(|other| path.contains(other));
        self.merge_with_one_of(block, &adjacent)
            || self.merge_with_one_of(block, &on_path)
            || self.move_to_free(block)
    }

    fn merge_with_one_of(&mut self, block: usize, others: &BTreeSet<usize>) -> bool {
        let mut choices: Vec<Choice> = others.iter().flat_map(|&other| self.choices(block, other)).collect();
        choices.sort_by(|a, b| a.makespan.total_cmp(&b.makespan));
        for Choice { blocks, processor, .. } in choices {
            let memory = self.problem.cluster.processors()[processor].memory;
            if let Some(traversal) = self.traversal_within(&blocks, memory) {
                self.free.extend(blocks.iter().filter_map(|&block| self.quotient.processor(block)));
                self.free.remove(&processor);
                self.quotient.merge(Merged { blocks: &blocks, processor }, &traversal.order);
                self.traversals[blocks[0]] = traversal;
                return true;
            }
        }
        false
    }

    /// Returns the possible mergers of a block of tasks with another block. If the merged block and a third block
    /// would depend on each other in a cycle, the third block is included.
    fn choices(&self, block: usize, other: usize) -> Vec<Choice> {
        let choice = |blocks: Vec<usize>, processor: usize| {
            let merged = Merged { blocks: &blocks, processor };
            let makespan = self.quotient.makespan_if(merged)?;
            Some(Choice { makespan, blocks, processor })
        };
        let processor = |block: usize| self.quotient.processor(block);
        let two = processor(other).and_then(|processor| choice(vec![other, block], processor));
        if let Some(two) = two {
            return vec![two];
        }
        let [third] = self.quotient.between(block, other)[..] else { return Vec::new() };
        [other, third]
            .into_iter()
            .filter_map(processor)
            .filter_map(|processor| choice(vec![other, block, third], processor))
            .collect()
    }

    /// Returns an order of the tasks of `blocks` with a peak memory of at most `memory`, if the search finds one.
    fn traversal_within(&self, blocks: &[usize], memory: u64) -> Option<Traversal> {
        let Problem { graph, model, .. } = self.problem;
        let tasks: Vec<usize> =
            blocks.iter().flat_map(|&block| self.traversals[block].order.iter().copied()).collect();
        if tasks.iter().any(|&task| graph.requirement(task, model.task_memory) > memory) {
            return None;
        }
        Some(least_memory(graph, &tasks, model)).filter(|traversal| traversal.peak <= memory)
    }

    fn move_to_free(&mut self, block: usize) -> bool {
        let processors = self.problem.cluster.processors();
        let peak = self.traversals[block].peak;
        let fits = self.free.iter().copied().filter(|&p| processors[p].memory >= peak);
        let Some(fastest) =
            fits.max_by(|&a, &b| processors[a].speed.total_cmp(&processors[b].speed).then(b.cmp(&a)))
        else {
            return false;
        };
        self.free.remove(&fastest);
        self.quotient.set_processor(block, Some(fastest));
        true
    }

    /// Divides a block of tasks into two. Returns the memory need and the number of each half, for the queue of
    /// blocks without a processor.
    fn divide(&mut self, block: usize, random: &mut Random) -> [(u64, Reverse<usize>); 2] {
        let halves = divide(self.problem, std::mem::take(&mut self.traversals[block]), random);
        self.quotient.divide(block, &[0, 1].map(|half: usize| halves[half].order.clone()));
        halves.map(|half| {
            let entry = (half.peak, Reverse(self.traversals.len()));
            self.traversals.push(half);
            entry
        })
    }

    fn placed(mut self) -> Vec<Placed> {
        let blocks: Vec<usize> = self.quotient.blocks().collect();
        let place = |block: usize| {
            let traversal = std::mem::take(&mut self.traversals[block]);
            self.quotient.processor(block).map(|processor| Placed { processor, traversal })
        };
        blocks.into_iter().filter_map(place).collect()
    }
}

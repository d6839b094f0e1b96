//! Step 3: blocks without a processor are merged with others.

use std::cmp::Reverse;
use std::collections::{BTreeSet, VecDeque};

use super::Problem;
use super::assign::Assigned;
use crate::workflow::blocks::placement::Placed;
use crate::workflow::blocks::quotient::{Merged, Quotient};
use crate::workflow::traversal::Traversal;

/// How often a block that cannot be merged yet is tried again, when blocks beside it are merged before: the number of the
/// paper.
const MOST_RETRIES: usize = 2;

/// All blocks on processors. None if there is one that cannot be merged.
pub(super) fn merge(problem: Problem<'_>, assigned: Assigned) -> Option<Vec<Placed>> {
    let Assigned { placed, left } = assigned;
    let count = placed.len();
    let (processors, mut traversals): (Vec<usize>, Vec<Traversal>) =
        placed.into_iter().map(|Placed { processor, traversal }| (processor, traversal)).unzip();
    traversals.extend(left);
    let tasks = traversals.iter().map(|traversal| &traversal.order[..]);
    let mut quotient = Quotient::new(problem.graph, problem.cluster, tasks);
    for (block, &processor) in processors.iter().enumerate() {
        quotient.set_processor(block, Some(processor));
    }
    let free = (0..problem.cluster.len()).filter(|processor| !processors.contains(processor)).collect();
    let mut unassigned: Vec<usize> = (count..traversals.len()).collect();
    unassigned.sort_by_key(|&block| (Reverse(traversals[block].peak), block));
    let mut merging = Merging { problem, quotient, traversals, free };
    let mut queue: VecDeque<(usize, usize)> = unassigned.into_iter().map(|block| (block, 0)).collect();
    while let Some((block, tries)) = queue.pop_front() {
        if !merging.is_unassigned(block) || merging.place(block) {
            continue;
        }
        let beside = merging.quotient.neighbours(block).any(|other| merging.is_unassigned(other));
        if !beside || tries == MOST_RETRIES {
            return None;
        }
        queue.push_back((block, tries + 1));
    }
    Some(merging.placed())
}

struct Merging<'a> {
    problem: Problem<'a>,
    quotient: Quotient<'a>,
    traversals: Vec<Traversal>,
    free: BTreeSet<usize>,
}

/// A way to merge a block with others, the first of which has a processor.
struct Choice {
    makespan: f64,
    blocks: Vec<usize>,
    processor: usize,
}

impl Merging<'_> {
    /// Whether there is such a block, and it has no processor.
    fn is_unassigned(&self, block: usize) -> bool {
        self.quotient.is_alive(block) && self.quotient.processor(block).is_none()
    }

    /// Merges a block so that the whole ends soonest: with one that is not on the critical path, or, if that is not
    /// possible, with any, or gives it a processor that has become free. Returns whether that was possible.
    fn place(&mut self, block: usize) -> bool {
        let path = self.quotient.critical_path();
        let (on_path, beside): (BTreeSet<usize>, BTreeSet<usize>) = self
            .quotient
            .neighbours(block)
            .filter(|&other| self.quotient.processor(other).is_some())
            .partition(|other| path.contains(other));
        self.merge_with_one_of(block, &beside)
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
                self.quotient.merge(Merged { blocks: &blocks, processor });
                self.traversals[blocks[0]] = traversal;
                return true;
            }
        }
        false
    }

    /// The ways to merge a block with another, and with a third one if the two and that would wait for one another.
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

    /// An order of all tasks of these blocks, if one is known that needs no more than this.
    fn traversal_within(&self, blocks: &[usize], memory: u64) -> Option<Traversal> {
        let Problem { graph, model, .. } = self.problem;
        let tasks: Vec<usize> =
            blocks.iter().flat_map(|&block| self.traversals[block].order.iter().copied()).collect();
        if tasks.iter().any(|&task| graph.requirement(task, model.task_memory) > memory) {
            return None;
        }
        Some(Traversal::of(graph, &tasks, model)).filter(|traversal| traversal.peak <= memory)
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

    fn placed(mut self) -> Vec<Placed> {
        let blocks: Vec<usize> = self.quotient.blocks().collect();
        blocks
            .into_iter()
            .filter_map(|block| {
                let traversal =
                    std::mem::replace(&mut self.traversals[block], Traversal { order: Vec::new(), peak: 0 });
                self.quotient.processor(block).map(|processor| Placed { processor, traversal })
            })
            .collect()
    }
}

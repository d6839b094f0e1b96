//! Topological orders of a block of a workflow's tasks by simple rules.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::block::TaskBlock;

/// Orders tasks so that, of the tasks whose inputs are complete, the one that has been ready for the longest time is next.
pub fn breadth_first(block: &TaskBlock) -> Vec<usize> {
    let mut ready = VecDeque::new();
    by(block, &mut ready, VecDeque::push_back, VecDeque::pop_front)
}

/// Orders tasks so that, of the tasks whose inputs are complete, the one that became ready last is next.
pub fn depth_first(block: &TaskBlock) -> Vec<usize> {
    let mut ready = Vec::new();
    by(block, &mut ready, Vec::push, Vec::pop)
}

/// Orders tasks so that, of the tasks whose inputs are complete, the one after which the files occupy the least memory is next; among equal tasks the
/// one with the smallest need.
pub fn greedy(block: &TaskBlock) -> Vec<usize> {
    // The difference does not overflow: both sizes are at most the sum of all sizes, which fits a signed integer.
    let key = |task| (block.kept(task) as i64 - block.freed(task) as i64, block.need(task), task);
    let mut ready = BinaryHeap::new();
    by(
        block,
        &mut ready,
        |ready, task| ready.push(Reverse(key(task))),
        |ready| ready.pop().map(|Reverse((.., task))| task),
    )
}

/// Returns the order in which tasks leave a collection of ready tasks, such as a stack. Tasks that become ready together are added by descending
/// number, so that a stack returns the smallest number first.
fn by<R>(
    block: &TaskBlock,
    ready: &mut R,
    push: impl Fn(&mut R, usize),
    pop: impl Fn(&mut R) -> Option<usize>,
) -> Vec<usize> {
    let mut missing: Vec<usize> = (0..block.len()).map(|task| block.inputs(task).len()).collect();
    for task in (0..block.len()).rev().filter(|&task| missing[task] == 0) {
        push(ready, task);
    }
    let mut order = Vec::with_capacity(block.len());
    while let Some(task) = pop(ready) {
        order.push(task);
        for edge in block.outputs(task).iter().rev() {
            missing[edge.to] -= 1;
            if missing[edge.to] == 0 {
                push(ready, edge.to);
            }
        }
    }
    order
}

//! Topological orders by simple rules.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::block::Block;

/// Of the tasks that are ready, always the one that has been so for longest.
pub(super) fn breadth_first(block: &Block) -> Vec<usize> {
    let mut ready = VecDeque::new();
    by(block, &mut ready, VecDeque::push_back, VecDeque::pop_front)
}

/// Of the tasks that are ready, always the one that became so last.
pub(super) fn depth_first(block: &Block) -> Vec<usize> {
    let mut ready = Vec::new();
    by(block, &mut ready, Vec::push, Vec::pop)
}

/// Of the tasks that are ready, always the one after which least is kept; of those the one that needs least while it runs.
pub(super) fn greedy(block: &Block) -> Vec<usize> {
    // What is kept and freed is at most the sum of all sizes, which has a sign to spare.
    let key = |task| (block.kept(task) as i64 - block.freed(task) as i64, block.need(task), task);
    let mut ready = BinaryHeap::new();
    by(
        block,
        &mut ready,
        |ready, task| ready.push(Reverse(key(task))),
        |ready| ready.pop().map(|Reverse((.., task))| task),
    )
}

/// The order in which ready tasks come out of a collection. Those that become ready together go in by descending number, so
/// that a stack gives the smallest first.
fn by<R>(
    block: &Block,
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

//! Step 4 of the planner DagHetPart: blocks of tasks are swapped between processors and moved while the makespan
//! decreases.

use super::fixed::Fixed;
use super::problem::Problem;
use crate::workflow::blocks::placement::Placed;

/// Swaps blocks of tasks between processors, moves blocks of the critical path to faster idle processors, and swaps
/// again. Returns the blocks and the makespan.
pub(super) fn improve(problem: Problem<'_>, mut blocks: Vec<Placed>) -> (Vec<Placed>, f64) {
    let fixed = Fixed::new(problem.graph, problem.cluster, &blocks);
    let mut places = Places {
        problem,
        peaks: blocks.iter().map(|placed| placed.traversal.peak).collect(),
        processors: blocks.iter().map(|placed| placed.processor).collect(),
        fixed,
    };
    places.swap();
    if blocks.len() < problem.cluster.len() {
        places.move_to_idle();
        places.swap();
    }
    for (block, &processor) in blocks.iter_mut().zip(&places.processors) {
        block.processor = processor;
    }
    let makespan = places.makespan();
    (blocks, makespan)
}

struct Places<'a> {
    problem: Problem<'a>,
    fixed: Fixed<'a>,
    peaks: Vec<u64>,
    processors: Vec<usize>,
}

impl Places<'_> {
    fn makespan(&self) -> f64 {
        self.fixed.makespan(&self.processors)
    }

    fn fits(&self, block: usize, processor: usize) -> bool {
        self.peaks[block] <= self.problem.cluster.processors()[processor].memory
    }

    /// Carries out the best swap of the processors of two blocks of tasks, repeatedly until no swap improves the
    /// makespan.
    fn swap(&mut self) {
        let mut makespan = self.makespan();
        loop {
            let mut best = None;
            for one in 0..self.processors.len() {
                for other in one + 1..self.processors.len() {
                    if self.fits(one, self.processors[other]) && self.fits(other, self.processors[one]) {
                        self.processors.swap(one, other);
                        let swapped = self.makespan();
                        self.processors.swap(one, other);
                        if swapped < makespan {
                            (best, makespan) = (Some((one, other)), swapped);
                        }
                    }
                }
            }
            let Some((one, other)) = best else { return };
            self.processors.swap(one, other);
        }
    }

    /// Moves blocks of tasks on the critical path, each at most once, to the fastest idle processor with enough
    /// memory, if that processor is faster and the makespan does not increase.
    fn move_to_idle(&mut self) {
        let mut moved = vec![false; self.processors.len()];
        while let Some((block, processor)) = self.next_move(&moved) {
            self.processors[block] = processor;
            moved[block] = true;
        }
    }

    fn next_move(&self, moved: &[bool]) -> Option<(usize, usize)> {
        let processors = self.problem.cluster.processors();
        let makespan = self.makespan();
        let mut path = self.fixed.critical_path(&self.processors);
        path.retain(|&block| !moved[block]);
        path.into_iter().find_map(|block| {
            let speed = processors[self.processors[block]].speed;
            let idle = (0..processors.len()).filter(|p| !self.processors.contains(p));
            // Among idle processors of equal speed, the one with the least memory is preferred, then the one with the
            // smallest number.
            let target =
                idle.filter(|&p| self.fits(block, p) && processors[p].speed > speed).max_by(|&a, &b| {
                    let by_speed = processors[a].speed.total_cmp(&processors[b].speed);
                    by_speed.then(processors[b].memory.cmp(&processors[a].memory)).then(b.cmp(&a))
                })?;
            let mut after = self.processors.clone();
            after[block] = target;
            (self.fixed.makespan(&after) <= makespan).then_some((block, target))
        })
    }
}

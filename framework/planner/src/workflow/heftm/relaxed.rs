//! Relaxed HEFTM: list scheduling with memory limits, which departs from its order of tasks if a task does not fit on any processor.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::clusters::Homes;
use super::place::{best_processor, fits_nowhere};
use crate::error::Result;
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::timeline::Timeline;

/// Collection of the tasks that can be placed next, because all tasks from which they read are placed.
struct Ready<'a> {
    graph: &'a Workflow,
    /// For each task, its position in the order in which the caller wants the tasks to be placed.
    place: Vec<usize>,
    /// For each task, the number of tasks from which it reads and which are not placed.
    missing: Vec<usize>,
    placed: Vec<bool>,
    /// Tasks that can be placed next, by their position in the caller's order. Placed tasks are not removed from the heap, but skipped.
    in_order: BinaryHeap<Reverse<(usize, usize)>>,
    /// Tasks that can be placed next, sorted by input size minus output size (tasks that free the most memory come first), then by position in the
    /// caller's order.
    relieving: BinaryHeap<(i128, Reverse<usize>, usize)>,
    /// Tasks that could be placed next, but did not fit on any processor when they were last tried.
    stuck: Vec<usize>,
}

impl<'a> Ready<'a> {
    /// Creates the collection for the tasks of `order`. Files written by tasks outside of `order` count as written.
    fn new(graph: &'a Workflow, order: &[usize]) -> Self {
        let mut place = vec![usize::MAX; graph.len()];
        for (number, &task) in order.iter().enumerate() {
            place[task] = number;
        }
        let missing = |task: usize| graph.inputs(task).filter(|edge| place[edge.from] != usize::MAX).count();
        let missing = (0..graph.len()).map(missing).collect();
        let mut ready = Ready {
            graph,
            place,
            missing,
            placed: vec![false; graph.len()],
            in_order: BinaryHeap::new(),
            relieving: BinaryHeap::new(),
            stuck: Vec::new(),
        };
        for &task in order {
            if ready.missing[task] == 0 {
                ready.add(task);
            }
        }
        ready
    }

    fn add(&mut self, task: usize) {
        self.in_order.push(Reverse((self.place[task], task)));
        self.add_relieving(task);
    }

    fn add_relieving(&mut self, task: usize) {
        let gain = i128::from(self.graph.input_size(task)) - i128::from(self.graph.output_size(task));
        self.relieving.push((gain, Reverse(self.place[task]), task));
    }

    fn next(&mut self) -> Option<usize> {
        while let Some(&Reverse((_, task))) = self.in_order.peek() {
            if !self.placed[task] {
                return Some(task);
            }
            self.in_order.pop();
        }
        None
    }

    /// Returns the task that frees the most memory among those that can be placed next. Each task is returned once, until another task has been
    /// placed.
    fn next_relieving(&mut self) -> Option<usize> {
        while let Some((_, _, task)) = self.relieving.pop() {
            if !self.placed[task] {
                return Some(task);
            }
        }
        None
    }

    fn retry_stuck(&mut self) {
        for task in std::mem::take(&mut self.stuck) {
            self.add_relieving(task);
        }
    }

    fn done(&mut self, task: usize) {
        self.placed[task] = true;
        let graph = self.graph;
        for edge in graph.outputs(task) {
            self.missing[edge.to] -= 1;
            if self.missing[edge.to] == 0 && self.place[edge.to] != usize::MAX {
                self.add(edge.to);
            }
        }
    }
}

/// Places the tasks of `order`, each on the processor where it ends first. While the next task fits on no processor, other tasks are placed before
/// it, those that free the most memory first. If `homes` is given, each task is placed on the preferred processor (home) of its cluster of tasks.
pub(in crate::workflow) fn place_relaxed(
    timeline: &mut Timeline<'_>,
    graph: &Workflow,
    cluster: &Cluster,
    order: &[usize],
    mut homes: Option<Homes>,
) -> Result<()> {
    let mut ready = Ready::new(graph, order);
    let mut place = |ready: &mut Ready<'_>, task| place(timeline, cluster, ready, homes.as_mut(), task);
    // True if a task was placed after the last attempt to place the tasks that fitted on no processor.
    let mut has_moved = true;
    while let Some(next) = ready.next() {
        if place(&mut ready, next) {
            has_moved = true;
            continue;
        }
        loop {
            match ready.next_relieving() {
                Some(task) if place(&mut ready, task) => {
                    has_moved = true;
                    break;
                }
                Some(task) => ready.stuck.push(task),
                None if has_moved => {
                    has_moved = false;
                    ready.retry_stuck();
                }
                None => return Err(fits_nowhere(graph, cluster, next)),
            }
        }
    }
    Ok(())
}

fn place(
    timeline: &mut Timeline<'_>,
    cluster: &Cluster,
    ready: &mut Ready<'_>,
    homes: Option<&mut Homes>,
    task: usize,
) -> bool {
    let inputs = timeline.inputs(task);
    let best = match &homes {
        Some(homes) => homes.processor(timeline, cluster, task, &inputs),
        None => best_processor(timeline, cluster, task, &inputs),
    };
    let Some(p) = best.filter(|&p| timeline.place(task, p, &inputs).is_some()) else { return false };
    if let Some(homes) = homes {
        homes.placed(task, ready.graph.work(task), p);
    }
    ready.done(task);
    true
}

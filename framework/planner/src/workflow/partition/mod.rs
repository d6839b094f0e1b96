//! Partitions of a workflow into blocks of about equal weight, with little between them, that never wait for one another in a circle.
//!
//! The method is that of Herrmann, Özkaya, Uçar, Kaya and Çatalyürek (*Multilevel algorithms for acyclic partitioning of
//! directed acyclic graphs*, 2019): halves of halves; for each half the graph is made coarse by clusters that leave it
//! acyclic, cut there, and the cut is refined on each level on the way back. All edges lead from the first half to the second, so
//! blocks are numbered in an order in which they can run.

mod bisection;
mod coarsen;
mod dag;
mod grow;
mod refine;

pub(in crate::workflow) use dag::Dag;

use crate::random::Random;
use crate::workflow::graph::Workflow;
use bisection::Bisection;

/// A block may weigh this much more than the mean: the bound with which the paper of 2024 partitions.
const IMBALANCE: f64 = 1.1;

/// Divides a workflow into at most `blocks` blocks of about equal work, with little between them, that never wait for one another in
/// a circle: what [`dag_het_part`](super::dag_het_part()) begins with. Returns the tasks of each, ascending; none is empty, and
/// edges lead to the same or a later block.
///
/// ```
/// use armature_planner::workflow::acyclic_partition;
/// use armature_planner::workflow::generate::Family;
///
/// let workflow = Family::Montage.build(200, 1)?;
/// let blocks = acyclic_partition(&workflow, 4, 1);
/// assert_eq!(blocks.len(), 4);
/// assert_eq!(blocks.concat().len(), workflow.len());
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Panics
/// If no block is asked for.
pub fn acyclic_partition(workflow: &Workflow, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
    assert!(blocks > 0, "a workflow has at least one block");
    let all: Vec<usize> = (0..workflow.len()).collect();
    partition(&Dag::of_tasks(workflow, &all), blocks, &mut Random::new(seed))
}

/// Divides the tasks of `dag` into at most `blocks` blocks. Returns the tasks of each, ascending; none is empty.
///
/// A block may be heavier than the bound where a single task is.
pub(in crate::workflow) fn partition(dag: &Dag, blocks: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let most = IMBALANCE * dag.total() / blocks as f64;
    let mut done = Vec::new();
    // The next in order is the last.
    let mut open = vec![(blocks, (0..dag.len()).collect::<Vec<_>>())];
    while let Some((blocks, tasks)) = open.pop() {
        if blocks == 1 || tasks.len() == 1 {
            done.push(tasks);
            continue;
        }
        let part = dag.part(&tasks);
        let parts = [blocks / 2, blocks - blocks / 2];
        let halves = Bisection::new(&part, parts, most).run(&part, random);
        let half = |second| {
            tasks.iter().zip(&halves).filter(move |&(_, &is)| is == second).map(|(&task, _)| task).collect()
        };
        open.push((parts[1], half(true)));
        open.push((parts[0], half(false)));
    }
    done
}

/// Divides the tasks of `dag`, at least two, into two blocks of about equal weight.
pub(in crate::workflow) fn halves(dag: &Dag, random: &mut Random) -> [Vec<usize>; 2] {
    let most = IMBALANCE * dag.total() / 2.0;
    let halves = Bisection::new(dag, [1, 1], most).run(dag, random);
    [false, true].map(|second| (0..dag.len()).filter(|&task| halves[task] == second).collect())
}

#[cfg(test)]
mod tests;

//! Partitions of a workflow into blocks of about equal weight with small files between them, whose dependencies form no cycle.
//!
//! The method is recursive bisection as in Herrmann, Özkaya, Uçar, Kaya and Çatalyürek (*Multilevel algorithms for acyclic partitioning of directed
//! acyclic graphs*, 2019). For each bisection the graph is coarsened by clustering vertices without creating cycles, and then cut into two halves.
//! The cut is refined at each level as the clusters are dissolved again. All edges lead from the first half to the second, so blocks are numbered in
//! an order in which they can run.

mod bisection;
mod coarsen;
mod dag;
mod grow;
mod refine;

use armature_planner::random::Random;
use armature_planner::workflow::Workflow;
use bisection::Bisection;
pub(in crate::workflow) use dag::Dag;

/// Maximum weight of a block of tasks relative to the mean weight of the blocks, as in the paper of Kulagina et al.
/// (2024) on DagHetPart.
const IMBALANCE: f64 = 1.1;

/// Divides a workflow into at most `blocks` blocks of about equal work with small files between them, whose dependencies form no cycle;
/// [`dag_het_part`](super::dag_het_part()) starts from this partition. Returns the tasks of each block in ascending order. No block is empty, and
/// edges lead to the same or a later block.
///
/// ```
/// use armature_papers::workflow::acyclic_partition;
/// use armature_papers::workflow::generate::Family;
///
/// let workflow = Family::Montage.build(200, 1)?;
/// let blocks = acyclic_partition(&workflow, 4, 1);
/// assert_eq!(blocks.len(), 4);
/// assert_eq!(blocks.concat().len(), workflow.len());
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Panics
/// Panics if `blocks` is 0.
pub fn acyclic_partition(workflow: &Workflow, blocks: usize, seed: u64) -> Vec<Vec<usize>> {
    assert!(blocks > 0, "a workflow has at least one block");
    let all: Vec<usize> = (0..workflow.len()).collect();
    partition(&Dag::of_tasks(workflow, &all), blocks, &mut Random::new(seed))
}

/// Divides the tasks of `dag` into at most `blocks` blocks. Returns the tasks of each block in ascending order; no
/// block is empty.
///
/// The weight of a block is at most [`IMBALANCE`] times the mean, unless a single task is heavier or the bisection
/// finds no such cut.
pub(in crate::workflow) fn partition(dag: &Dag, blocks: usize, random: &mut Random) -> Vec<Vec<usize>> {
    let most = IMBALANCE * dag.total() / blocks as f64;
    let mut done = Vec::new();
    // Stack of sets of tasks, each with the number of blocks into which it must be divided. The set at the top has the first of the blocks that
    // remain.
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

//! DagHetPart: a partition that is fitted to the processors.

mod assign;
mod fixed;
mod improve;
mod merge;
mod problem;

use problem::Problem;

use super::dag_het_mem;
use super::placement::{Placed, plan};
use crate::error::{Error, ErrorKind, Result};
use crate::random::Random;
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::memory::MemoryModel;
use crate::workflow::parallel;
use crate::workflow::partition::{Dag, partition};
use crate::workflow::plan::Plan;
use crate::workflow::traversal::Traversal;

/// How [`dag_het_part`] searches. None of it changes what a plan may look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DagHetPart {
    /// Partitions into 1, 2, … blocks are tried, as many as there are processors; if this is less, as many as this, spread
    /// evenly over these numbers.
    pub most_partitions: usize,
    /// Threads that share this work; 0 are as many as there are cores. The plan does not depend on their number.
    pub threads: usize,
    /// What chance is drawn from.
    pub seed: u64,
}

impl Default for DagHetPart {
    /// All partitions, on all cores of this machine.
    fn default() -> Self {
        DagHetPart { most_partitions: usize::MAX, threads: 0, seed: 0 }
    }
}

/// Into how many blocks for each processor a partition falls before what does not fit is left for merging. The time that merging
/// takes grows with its square.
const BLOCKS_TO_MERGE: usize = 4;
/// How many blocks there are for each processor, at most, when those that could not be merged are divided.
const MOST_BLOCKS: usize = 2 * BLOCKS_TO_MERGE;

/// Blocks on processors, and when the last of them ends.
type Improved = (Vec<Placed>, f64);

/// The heuristic of the paper: the workflow is partitioned into blocks with little between them; the blocks that need most
/// memory go to the processors that have most, and are divided where they do not fit; those that are left are merged with others;
/// then blocks change places. Of all numbers of blocks to begin with, the best is taken.
///
/// Beyond the paper, the plan of [`dag_het_mem`](super::dag_het_mem()) is one of those that are improved. So there is a plan
/// whenever that has one, and never a later end.
///
/// ```
/// use armature_planner::workflow::{Cluster, DagHetPart, MemoryModel, Processor, Workflow};
/// use armature_planner::workflow::{dag_het_mem, dag_het_part};
///
/// // Two chains that have nothing to do with each other.
/// let mut builder = Workflow::builder();
/// for task in 0..6 {
///     builder.task(format!("t{task}"), 10.0, 1);
/// }
/// for task in 0..4 {
///     builder.edge(task, task + 2, 1);
/// }
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("p", 1.0, 8); 2], 1.0)?;
///
/// let model = MemoryModel::default();
/// assert_eq!(dag_het_mem(&workflow, &cluster, model)?.makespan, 60.0);
/// assert_eq!(dag_het_part(&workflow, &cluster, model, &DagHetPart::default())?.makespan, 30.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Infeasible`] if no plan was found.
pub fn dag_het_part(
    graph: &Workflow,
    cluster: &Cluster,
    model: MemoryModel,
    options: &DagHetPart,
) -> Result<Plan> {
    let problem = Problem { graph, cluster, model };
    let all: Vec<usize> = (0..graph.len()).collect();
    let dag = Dag::of_tasks(graph, &all);
    let baseline = dag_het_mem::blocks(graph, cluster, model);
    // Large numbers of blocks take longest, so they come first; the baseline comes last.
    let numbers = numbers_of_blocks(cluster.len().min(graph.len()), options.most_partitions);
    let starts: Vec<Option<usize>> = numbers.rev().map(Some).chain([None]).collect();
    let candidates = parallel::answers(&starts, options.threads, |&start| match start {
        None => baseline.as_ref().ok().map(|blocks| improve::improve(problem, blocks.clone())),
        Some(number) => from_partition(problem, &dag, number, options.seed),
    });
    let best = candidates.into_iter().rev().flatten().reduce(earlier);
    let best = best.map(|(blocks, _)| plan(graph, cluster, model, &blocks));
    let baseline = baseline.map(|blocks| plan(graph, cluster, model, &blocks));
    match (best, baseline) {
        // Blocks are compared by sums in another order, so that one that is better by them may be worse by the last digit.
        (Some(best), Ok(baseline)) if baseline.makespan < best.makespan => Ok(baseline),
        (Some(best), _) => Ok(best),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(Error::new(ErrorKind::Infeasible, "no partition fits the processors")),
    }
}

/// The better of two, the first if they are equal.
fn earlier(best: Improved, next: Improved) -> Improved {
    if next.1 < best.1 { next } else { best }
}

/// The blocks that a partition into `number` comes to, if all find a processor.
///
/// Blocks that do not fit are divided at once, as in the paper, but not into more than a few for each processor; or only when they cannot
/// be merged. Often one of the two finds a plan where the other does not.
fn from_partition(problem: Problem<'_>, dag: &Dag, number: usize, seed: u64) -> Option<Improved> {
    let processors = problem.cluster.len();
    let mut random = Random::new(seed ^ number as u64);
    let blocks = partition(dag, number, &mut random);
    let blocks: Vec<Traversal> =
        blocks.iter().map(|tasks| Traversal::of(problem.graph, tasks, problem.model)).collect();
    let mut best: Option<Improved> = None;
    for most_blocks in [number, BLOCKS_TO_MERGE * processors] {
        let assigned = assign::assign(problem, blocks.clone(), most_blocks, &mut random);
        let all_fit = assigned.left.is_empty();
        let merged = merge::merge(problem, assigned, MOST_BLOCKS * processors, &mut random);
        let next = merged.map(|merged| improve::improve(problem, merged));
        best = best.into_iter().chain(next).reduce(earlier);
        if all_fit {
            // With more blocks allowed, none would be divided either.
            break;
        }
    }
    best
}

/// At most `most` of the numbers from 1 to `blocks`, the last among them.
fn numbers_of_blocks(blocks: usize, most: usize) -> impl DoubleEndedIterator<Item = usize> {
    let count = most.clamp(1, blocks);
    (1..=count).map(move |number| number * blocks / count)
}

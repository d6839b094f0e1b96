//! Planner DagHetPart: a partition of the workflow into blocks of tasks that is fitted to the processors.

mod assign;
mod fixed;
mod improve;
mod merge;
mod problem;

use armature_planner::random::Random;
use armature_planner::workflow::{Cluster, MemoryModel, Plan, Traversal, Workflow, answers};
use armature_planner::{Error, ErrorKind, Result};
use problem::Problem;

use super::dag_het_mem;
use super::placement::{Placed, plan};
use crate::workflow::least_memory;
use crate::workflow::partition::{Dag, partition};

/// Parameters that limit the search of [`dag_het_part`], but not the kind of plan that it may return.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DagHetPart {
    /// Maximum number of partitions that are tried. Partitions into 1, 2, … blocks of tasks are tried up to the
    /// number of processors; with a smaller maximum, the numbers of blocks are spread evenly over this range.
    pub most_partitions: usize,
    /// Number of threads of the planner; 0 uses all cores. The plan does not depend on the number.
    pub threads: usize,
    /// Seed of the random choices of the partitioner.
    pub seed: u64,
}

impl Default for DagHetPart {
    fn default() -> Self {
        DagHetPart { most_partitions: usize::MAX, threads: 0, seed: 0 }
    }
}

/// Maximum number of blocks of tasks per processor into which a partition is divided before the blocks that fit no
/// processor are merged. The run time of merging grows with the square of this number.
const BLOCKS_TO_MERGE: usize = 4;
/// Maximum number of blocks of tasks per processor after blocks that could not be merged have been divided.
const MOST_BLOCKS: usize = 2 * BLOCKS_TO_MERGE;

/// Blocks of tasks on processors, without the times of tasks, and the makespan.
type Improved = (Vec<Placed>, f64);

/// Plans with the heuristic of the paper of Kulagina et al. The workflow is partitioned into blocks with small files between them. The blocks with
/// the largest memory needs are assigned to the processors with the most memory, and are divided if they do not fit. Blocks without a processor are
/// merged with others. Finally blocks are swapped between processors. The best result over all initial numbers of blocks is returned.
///
/// The plan of [`dag_het_mem`](super::dag_het_mem()) is improved as well, which is not in the paper. Therefore a plan is found whenever `dag_het_mem`
/// finds one, and the plan is never longer than that of `dag_het_mem`.
///
/// ```
/// use armature_papers::workflow::{DagHetPart, dag_het_mem, dag_het_part};
/// use armature_planner::workflow::{Cluster, MemoryModel, Processor, Workflow};
///
/// // Two independent chains.
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
    // Partitions into many blocks of tasks take longest to plan, so they come first, for an even load of the threads;
    // the blocks of the planner DagHetMem come last.
    let numbers = numbers_of_blocks(cluster.len().min(graph.len()), options.most_partitions);
    let starts: Vec<Option<usize>> = numbers.rev().map(Some).chain([None]).collect();
    let candidates = answers(&starts, options.threads, |&start| match start {
        None => baseline.as_ref().ok().map(|blocks| improve::improve(problem, blocks.clone())),
        Some(number) => from_partition(problem, &dag, number, options.seed),
    });
    let best = candidates.into_iter().rev().flatten().reduce(earlier);
    let best = best.map(|(blocks, _)| plan(graph, cluster, model, &blocks));
    let baseline = baseline.map(|blocks| plan(graph, cluster, model, &blocks));
    match (best, baseline) {
        // DagHetPart adds up times in another order than the planner does for the makespan of a plan. According to the
        // sums of DagHetPart, its plan is not longer than that of DagHetMem, but its makespan may be longer in the
        // last digit.
        (Some(best), Ok(baseline)) if baseline.makespan < best.makespan => Ok(baseline),
        (Some(best), _) => Ok(best),
        (None, Err(error)) => Err(error),
        (None, Ok(_)) => Err(Error::new(ErrorKind::Infeasible, "no partition fits the processors")),
    }
}

fn earlier(best: Improved, next: Improved) -> Improved {
    if next.1 < best.1 { next } else { best }
}

/// Partitions the tasks into `number` blocks and finds a processor for each block. Returns `None` if that is
/// impossible.
///
/// Two variants are tried: blocks that fit no processor are divided at once as in the paper of Kulagina et al., up to
/// a few blocks for each processor, or only if they cannot be merged. Often one variant finds a plan where the other
/// does not.
fn from_partition(problem: Problem<'_>, dag: &Dag, number: usize, seed: u64) -> Option<Improved> {
    let processors = problem.cluster.len();
    let mut random = Random::new(seed ^ number as u64);
    let blocks = partition(dag, number, &mut random);
    let blocks: Vec<Traversal> =
        blocks.iter().map(|tasks| least_memory(problem.graph, tasks, problem.model)).collect();
    let mut best: Option<Improved> = None;
    for most_blocks in [number, BLOCKS_TO_MERGE * processors] {
        let assigned = assign::assign(problem, blocks.clone(), most_blocks, &mut random);
        let all_fit = assigned.left.is_empty();
        let merged = merge::merge(problem, assigned, MOST_BLOCKS * processors, &mut random);
        let next = merged.map(|merged| improve::improve(problem, merged));
        best = best.into_iter().chain(next).reduce(earlier);
        if all_fit {
            // The second variant may divide blocks, but all blocks fit and none would be divided, so its result would
            // be the same.
            break;
        }
    }
    best
}

/// Returns at most `most` numbers of blocks of tasks, spread over 1 to `blocks`, with the last one included.
fn numbers_of_blocks(blocks: usize, most: usize) -> impl DoubleEndedIterator<Item = usize> {
    let count = most.clamp(1, blocks);
    (1..=count).map(move |number| number * blocks / count)
}

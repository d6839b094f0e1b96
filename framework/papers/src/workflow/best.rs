//! Best plan for a workflow among those of all planners: list schedules, plans with one block of tasks per processor,
//! and local search.

use armature_planner::workflow::{
    BestPlan, Cluster, Plan, PlanOptions, Planner, Situation, Workflow, heftm_relaxed, plan_with, retrace,
};
use armature_planner::{Error, ErrorKind, Result};

use super::blocks::{DagHetPart, dag_het_mem, dag_het_part};
use super::traversal::least_memory;

/// Returns the best plan of all planners for a workflow, checked by the verifier: the planners of
/// [`plan`](armature_planner::workflow::plan()), the list scheduler HEFTM with the task order of [`least_memory`],
/// [`dag_het_mem`] and [`dag_het_part`](super::dag_het_part()). If [`dag_het_mem`] finds a plan, this function finds
/// one as well.
///
/// ```
/// use armature_papers::workflow::generate::{Family, paper_cluster};
/// use armature_papers::workflow::plan_with_blocks;
/// use armature_planner::workflow::{PlanOptions, plan};
///
/// let workflow = Family::Epigenomics.build(100, 1)?;
/// let cluster = paper_cluster(3, 4, 1.0)?;
/// let mut options = PlanOptions::default();
/// options.evaluations = 16;
/// let best = plan_with_blocks(&workflow, &cluster, &options)?;
/// assert!(best.certificate.is_valid());
/// assert!(best.attempts.len() > plan(&workflow, &cluster, &options)?.attempts.len());
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Infeasible`] with the error of the first planner, if no planner finds a plan.
pub fn plan_with_blocks(graph: &Workflow, cluster: &Cluster, options: &PlanOptions) -> Result<BestPlan> {
    let order = least_memory(graph, graph.topological_order(), options.memory).order;
    let mut others =
        vec![(Planner::RelaxedMemDag, heftm_relaxed(graph, cluster, &order, options.memory.task_memory))];
    others.extend(block_plans(graph, cluster, options));
    plan_with(graph, cluster, options, others)
}

fn block_plans(graph: &Workflow, cluster: &Cluster, options: &PlanOptions) -> [(Planner, Result<Plan>); 3] {
    let search =
        DagHetPart { most_partitions: options.partitions, threads: options.threads, seed: options.seed };
    let mem = dag_het_mem(graph, cluster, options.memory);
    let part = dag_het_part(graph, cluster, options.memory, &search);
    let start = Situation::new(graph, cluster);
    let as_events = part.clone().and_then(|plan| {
        retrace(graph, cluster, &plan, &start).ok_or_else(|| {
            let message = "the blocks do not fit when files wait in memory or buffers until they are sent";
            Error::new(ErrorKind::Infeasible, message)
        })
    });
    [(Planner::DagHetMem, mem), (Planner::DagHetPart, part), (Planner::DagHetPartAsEvents, as_events)]
}

//! Entry point of the planners of workflows: `plan` returns the best of their plans.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::Ordering;

use serde::{Deserialize, Serialize};

use super::cluster::Cluster;
use super::exhaustive;
use super::graph::Workflow;
use super::heftm::{
    Level, Merge, blended, clusters, heftm_clustered, heftm_in_order, heftm_relaxed, order_by_level,
};
use super::local_search;
use super::options::PlanOptions;
use super::parallel;
use super::plan::Plan;
use super::traversal::Traversal;
use super::verifier::{Verification, verify};
use super::worth::Worth;
use crate::error::{Error, Result};

/// Number of orders of the tasks that list scheduling tries between the order of bottom levels and the order that needs the least memory. In the
/// first of them the bottom levels have the weight one half, and in each following order half of the previous weight. Further orders gave the best
/// plan in none of 28 cases.
const BLENDS: u32 = 2;

/// Planners of workflows whose plans are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Planner {
    /// HEFTM (list scheduling with memory limits) in decreasing order of the bottom level, the length of the longest path from a task to the end.
    HeftmBl,
    /// HEFTM (list scheduling with memory limits) in decreasing order of the bottom level that includes reading inputs ([`Level::BottomWithInputs`]).
    HeftmBlc,
    /// HEFTM (list scheduling with memory limits) in the order of tasks that needs the least memory.
    HeftmMm,
    /// Relaxed HEFTM: list scheduling in the order of bottom levels, in which another task comes first while the next task fits on no processor.
    RelaxedBl,
    /// Relaxed HEFTM: list scheduling in the order of [`Level::BottomWithInputs`], in which another task comes first while the next task fits on no
    /// processor.
    RelaxedBlc,
    /// Relaxed HEFTM: list scheduling in the order that needs the least memory, in which another task comes first while the next task fits on no
    /// processor.
    RelaxedMm,
    /// Relaxed HEFTM (list scheduling that may depart from its order) in an order between that of bottom levels and that of the least memory. For the
    /// number n, the bottom levels have the weight 1/2ⁿ.
    Blended(u32),
    /// Relaxed HEFTM (list scheduling that may depart from its order) in an order of tasks that needs the least memory in series-parallel graphs; by
    /// the crate `armature-papers`.
    RelaxedMemDag,
    /// Plan in which each processor runs one block of tasks, from an order of the tasks that needs the least memory; by the crate `armature-papers`.
    DagHetMem,
    /// Plan in which each processor runs one block of tasks, from a partition of the workflow; by the crate `armature-papers`.
    DagHetPart,
    /// Plan in which tasks run on the same processors as in the plan of [`DagHetPart`](Planner::DagHetPart), but each file is sent as soon as it is
    /// written; by the crate `armature-papers`.
    DagHetPartAsEvents,
    /// Relaxed HEFTM (list scheduling that may depart from its order) by bottom levels, in which tasks with large files between them stay on one
    /// processor.
    ClusteredBl(Merge),
    /// Relaxed HEFTM (list scheduling that may depart from its order) in the order that needs the least memory, in which tasks with large files
    /// between them stay on one processor.
    ClusteredMm(Merge),
    /// Exhaustive search for the shortest plan, for a few tasks.
    Exhaustive,
    /// Local search from the best plan of the other planners.
    LocalSearch,
}

/// Result of one planner of workflows: the makespan of its plan, or its error.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// Planner that was called.
    pub planner: Planner,
    /// Makespan of the planner's plan in seconds, or its error.
    pub makespan: Result<f64>,
}

/// Best plan of all planners, with its certificate and the results of the other planners.
#[derive(Clone, Debug, PartialEq)]
pub struct BestPlan {
    /// Best plan of all planners.
    pub plan: Plan,
    /// Planner that found the plan.
    pub planner: Planner,
    /// Result of the verifier for the plan: it is valid, with its peak memory.
    pub certificate: Verification,
    /// Results of all planners.
    pub attempts: Vec<Attempt>,
}

/// Returns the best plan of all planners of this crate, checked by the verifier.
///
/// ```
/// use armature_planner::workflow::{Cluster, PlanOptions, Processor, Workflow, plan};
///
/// let mut builder = Workflow::builder();
/// for task in 0..100 {
///     builder.task(format!("t{task}"), 1.0 + (task % 7) as f64, 1 + task % 5);
/// }
/// (1..100).for_each(|task| builder.edge(task / 2, task, 1));
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("p", 1.0, 100); 4], 1.0)?;
/// let mut options = PlanOptions::default();
/// options.evaluations = 16;
/// let best = plan(&workflow, &cluster, &options)?;
///
/// assert!(best.certificate.is_valid());
/// assert!(best.attempts.iter().all(|attempt| {
///     attempt.makespan.as_ref().is_ok_and(|&makespan| makespan >= best.plan.makespan)
/// }));
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Infeasible`](crate::ErrorKind::Infeasible) with the error of the first planner, if no planner finds a plan.
pub fn plan(graph: &Workflow, cluster: &Cluster, options: &PlanOptions) -> Result<BestPlan> {
    plan_with(graph, cluster, options, Vec::new())
}

/// Returns the best plan as [`plan`] does, but also considers the results of other planners. Each of them may be the best plan or the start of the
/// local search.
///
/// # Errors
/// See [`plan`].
pub fn plan_with(
    graph: &Workflow,
    cluster: &Cluster,
    options: &PlanOptions,
    others: Vec<(Planner, Result<Plan>)>,
) -> Result<BestPlan> {
    let mut found = list_schedules(graph, cluster, options);
    let others = others.into_iter();
    found.extend(
        others.map(|(planner, plan)| (planner, plan.and_then(|plan| certified(graph, cluster, plan)))),
    );
    let known = shortest(&found);
    if let Some(plan) = exhaustive::shortest(graph, cluster, options.memory.task_memory, known) {
        found.push((Planner::Exhaustive, certified(graph, cluster, plan)));
    }
    improved(graph, cluster, options, found)
}

/// Returns the best plan that is found without exhaustive search. Tests use it, because for few tasks the exhaustive search would hide the results of
/// the other planners.
#[cfg(test)]
pub(super) fn plan_by_heuristics(
    graph: &Workflow,
    cluster: &Cluster,
    options: &PlanOptions,
) -> Result<BestPlan> {
    improved(graph, cluster, options, list_schedules(graph, cluster, options))
}

fn improved(
    graph: &Workflow,
    cluster: &Cluster,
    options: &PlanOptions,
    mut found: Found,
) -> Result<BestPlan> {
    let known = shortest(&found);
    if let Some((_, (start, _))) = best(graph, &found) {
        let stopped = || options.stop.as_ref().is_some_and(|stop| stop.load(Ordering::Relaxed));
        if let Some(plan) = local_search::improve(graph, cluster, start, known, options, &stopped) {
            found.push((Planner::LocalSearch, certified(graph, cluster, plan)));
        }
    }
    let attempts = found
        .iter()
        .map(|(planner, found)| Attempt { planner: *planner, makespan: makespan(found) })
        .collect();
    match best(graph, &found) {
        Some((planner, (plan, certificate))) => {
            Ok(BestPlan { plan: plan.clone(), planner, certificate: certificate.clone(), attempts })
        }
        None => Err(found.into_iter().find_map(|(_, found)| found.err()).expect("no plan was found")),
    }
}

/// Plans, or errors, of all planners in a fixed order.
type Found = Vec<(Planner, Result<Certified>)>;

fn list_schedules(graph: &Workflow, cluster: &Cluster, options: &PlanOptions) -> Found {
    let task_memory = options.memory.task_memory;
    let [bl, blc] =
        [Level::Bottom, Level::BottomWithInputs].map(|level| order_by_level(graph, cluster, level));
    let mm = Traversal::of(graph, graph.topological_order(), options.memory).order;
    let mut planners = vec![
        (Planner::HeftmBl, bl.clone()),
        (Planner::HeftmBlc, blc.clone()),
        (Planner::HeftmMm, mm.clone()),
        (Planner::RelaxedBl, bl.clone()),
        (Planner::RelaxedBlc, blc),
        (Planner::RelaxedMm, mm.clone()),
    ];
    let blend = |power: u32| (Planner::Blended(power), blended(&bl, &mm, 0.5_f64.powi(power as i32)));
    planners.extend((1..=BLENDS).map(blend));
    let clustered = |merge: &Merge| Some((*merge, clusters(graph, cluster, *merge)?));
    let clusters: HashMap<Merge, Vec<usize>> = Merge::ALL.iter().filter_map(clustered).collect();
    for merge in Merge::ALL.into_iter().filter(|merge| clusters.contains_key(merge)) {
        planners
            .extend([(Planner::ClusteredBl(merge), bl.clone()), (Planner::ClusteredMm(merge), mm.clone())]);
    }
    parallel::answers(&planners, options.threads, |(planner, order)| {
        let plan = match planner {
            Planner::HeftmBl | Planner::HeftmBlc | Planner::HeftmMm => {
                heftm_in_order(graph, cluster, order, task_memory)
            }
            Planner::ClusteredBl(merge) | Planner::ClusteredMm(merge) => {
                heftm_clustered(graph, cluster, order, &clusters[merge], task_memory)
            }
            _ => heftm_relaxed(graph, cluster, order, task_memory),
        };
        (*planner, plan.and_then(|plan| certified(graph, cluster, plan)))
    })
}

/// Plan that the verifier has accepted, with the result of the verifier.
type Certified = (Plan, Verification);

fn certified(graph: &Workflow, cluster: &Cluster, plan: Plan) -> Result<Certified> {
    let verification = verify(graph, cluster, &plan).certificate()?;
    Ok((plan, verification))
}

fn makespan(found: &Result<Certified>) -> Result<f64, Error> {
    found.as_ref().map(|(plan, _)| plan.makespan).map_err(Error::clone)
}

fn shortest(found: &Found) -> f64 {
    found.iter().filter_map(|(_, found)| makespan(found).ok()).fold(f64::INFINITY, f64::min)
}

fn best<'a>(graph: &Workflow, found: &'a Found) -> Option<(Planner, &'a Certified)> {
    let shortest = shortest(found);
    let plans = found.iter().filter_map(|(planner, found)| Some((*planner, found.as_ref().ok()?)));
    let worths = plans.map(|(planner, found)| (Worth::of(graph, &found.0), (planner, found)));
    let first = worths.reduce(|best, other| if other.0.is_better(&best.0, shortest) { other } else { best });
    first.map(|(_, found)| found)
}

impl fmt::Display for Planner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Planner::HeftmBl => f.write_str("HEFTM-BL"),
            Planner::HeftmBlc => f.write_str("HEFTM-BLC"),
            Planner::HeftmMm => f.write_str("HEFTM-MM"),
            Planner::RelaxedBl => f.write_str("HEFTM-BL, relaxed"),
            Planner::RelaxedBlc => f.write_str("HEFTM-BLC, relaxed"),
            Planner::RelaxedMm => f.write_str("HEFTM-MM, relaxed"),
            Planner::Blended(power) => write!(f, "HEFTM between BL and MM (1/2^{power})"),
            Planner::RelaxedMemDag => f.write_str("HEFTM-memDag, relaxed"),
            Planner::DagHetMem => f.write_str("DagHetMem"),
            Planner::DagHetPart => f.write_str("DagHetPart"),
            Planner::DagHetPartAsEvents => f.write_str("DagHetPart, files sent at once"),
            Planner::ClusteredBl(merge) => write!(f, "HEFTM-BL, clusters {merge}"),
            Planner::ClusteredMm(merge) => write!(f, "HEFTM-MM, clusters {merge}"),
            Planner::Exhaustive => f.write_str("exhaustive search"),
            Planner::LocalSearch => f.write_str("local search"),
        }
    }
}

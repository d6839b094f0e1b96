//! List scheduling: HEFTM, which respects memory limits, and HEFT, which ignores them.
//!
//! The method is that of Kulagina, Meyerhenke and Benoit, *Memory-aware Adaptive Scheduling of Scientific Workflows On Heterogeneous Architectures*
//! (2025). Tasks are placed one after the other, each on the processor where it ends first. Processors without enough memory, even after evictions of
//! files, are excluded. The event model of the timeline tracks in which memory each file is and when it moves.

mod clusters;
mod levels;
mod place;
mod relaxed;

pub use clusters::Merge;
pub(super) use clusters::{Homes, clusters};
pub use levels::Level;
pub(super) use levels::{blended, order as order_by_level};
use place::place_all;
pub(super) use relaxed::place_relaxed;

use super::cluster::Cluster;
use super::graph::Workflow;
use super::memory::TaskMemory;
use super::plan::Plan;
use super::timeline::{Rules, Timeline};
use crate::error::{Error, ErrorKind, Result};

/// Plans by list scheduling with memory limits (HEFTM), with the tasks in decreasing order of the given level: HEFTM-BL or HEFTM-BLC.
///
/// ```
/// use armature_planner::workflow::{Cluster, Level, Processor, TaskMemory, Workflow, heftm};
///
/// let mut builder = Workflow::builder();
/// let read = builder.task("read", 4.0, 2);
/// let long = builder.task("long", 40.0, 8);
/// let short = builder.task("short", 8.0, 2);
/// builder.edge(read, long, 1);
/// builder.edge(read, short, 1);
/// let workflow = builder.build()?;
/// // The second processor is faster, but has not the memory that `long` needs.
/// let cluster = Cluster::new(vec![Processor::new("large", 1.0, 16), Processor::new("fast", 4.0, 4)], 1.0)?;
///
/// let plan = heftm(&workflow, &cluster, Level::Bottom, TaskMemory::Additive)?;
/// assert_eq!(plan.processor_of, [1, 0, 1]);
/// // `read` ends after 1 s, its file travels for another, and `long` takes 40.
/// assert_eq!(plan.makespan, 42.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Errors
/// [`ErrorKind::Infeasible`] with the first task that fits no processor.
pub fn heftm(graph: &Workflow, cluster: &Cluster, level: Level, task_memory: TaskMemory) -> Result<Plan> {
    heftm_in_order(graph, cluster, &order_by_level(graph, cluster, level), task_memory)
}

/// Plans by list scheduling with memory limits (HEFTM) in the given order, in which each task comes after those from which it reads. With an order of
/// small peak memory this is HEFTM-MM.
///
/// # Errors
/// [`ErrorKind::Infeasible`] with the first task that fits no processor; [`ErrorKind::Options`] if the order lacks a task, or has one too early or
/// twice.
pub fn heftm_in_order(
    graph: &Workflow,
    cluster: &Cluster,
    order: &[usize],
    task_memory: TaskMemory,
) -> Result<Plan> {
    check_order(graph, order)?;
    let rules = Rules { task_memory, read_back: false, memory_blind: false };
    let mut timeline = Timeline::new(graph, cluster, rules);
    place_all(&mut timeline, graph, cluster, order)?;
    Ok(timeline.into_plan())
}

/// Plans with relaxed HEFTM, which departs from the given order where HEFTM would fail. In addition, a task can read an evicted file from the buffer
/// of its processor. While the next task fits no processor, other tasks whose inputs are complete come first; those that free the most memory are
/// tried first.
///
/// # Errors
/// [`ErrorKind::Infeasible`] if no ready task fits any processor; [`ErrorKind::Options`] as for [`heftm_in_order`].
pub fn heftm_relaxed(
    graph: &Workflow,
    cluster: &Cluster,
    order: &[usize],
    task_memory: TaskMemory,
) -> Result<Plan> {
    check_order(graph, order)?;
    let rules = Rules { task_memory, read_back: true, memory_blind: false };
    let mut timeline = Timeline::new(graph, cluster, rules);
    place_relaxed(&mut timeline, graph, cluster, order, None)?;
    Ok(timeline.into_plan())
}

/// Plans with relaxed HEFTM (list scheduling that may depart from its order). Tasks with the same entry in `cluster_of` run on one processor as long
/// as they fit there.
pub(super) fn heftm_clustered(
    graph: &Workflow,
    cluster: &Cluster,
    order: &[usize],
    cluster_of: &[usize],
    task_memory: TaskMemory,
) -> Result<Plan> {
    let rules = Rules { task_memory, read_back: true, memory_blind: false };
    let mut timeline = Timeline::new(graph, cluster, rules);
    let homes = Homes::new(graph, cluster, cluster_of);
    place_relaxed(&mut timeline, graph, cluster, order, Some(homes))?;
    Ok(timeline.into_plan())
}

/// Plans with HEFT: tasks by decreasing bottom level, each on the processor where it ends first, without memory limits. The plan may be invalid;
/// the [`verifier`](super::verify) reports the violations.
pub fn heft(graph: &Workflow, cluster: &Cluster, task_memory: TaskMemory) -> Plan {
    let order = order_by_level(graph, cluster, Level::Bottom);
    let rules = Rules { task_memory, read_back: false, memory_blind: true };
    let mut timeline = Timeline::new(graph, cluster, rules);
    place_all(&mut timeline, graph, cluster, &order).expect("without memory any processor will do");
    timeline.into_plan()
}

pub(super) fn check_order(graph: &Workflow, order: &[usize]) -> Result<()> {
    let mut seen = vec![false; graph.len()];
    for &task in order {
        let fault = if task >= graph.len() {
            format!("names task {task}, but there are {}, numbered from 0", graph.len())
        } else if seen[task] {
            format!("has task {:?} twice", graph.name(task))
        } else if let Some(edge) = graph.inputs(task).find(|edge| !seen[edge.from]) {
            format!("has task {:?} before {:?}, from which it reads", graph.name(task), graph.name(edge.from))
        } else {
            seen[task] = true;
            continue;
        };
        return Err(Error::new(ErrorKind::Options, format!("the order {fault}")));
    }
    match seen.iter().position(|&seen| !seen) {
        Some(task) => {
            Err(Error::new(ErrorKind::Options, format!("the order lacks task {:?}", graph.name(task))))
        }
        None => Ok(()),
    }
}

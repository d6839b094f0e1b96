//! Replanning of the rest of a workflow run that departs from its plan.

use super::cluster::Cluster;
use super::graph::Workflow;
use super::heftm::{Homes, Level, Merge, clusters, order_by_level, place_relaxed};
use super::memory::{Crossing, MemoryModel, TaskMemory};
use super::parallel;
use super::plan::Plan;
use super::situation::{Progress, Situation};
use super::timeline::{Rules, Timeline};
use super::traversal::Traversal;
use super::worth::Worth;
use crate::error::Result;

/// Plan for the rest of a workflow run.
#[derive(Clone, Debug, PartialEq)]
pub struct Replanned {
    /// New plan of the whole workflow; tasks that have started are unchanged.
    pub plan: Plan,
    /// True if all tasks keep the processors and the order of the old plan.
    pub kept: bool,
}

/// Returns a plan for the rest of a run in which all tasks keep their processors and their order, with the current works, memories and file sizes,
/// from the current state of the run. Returns `None` if a task no longer fits on its processor, or the processor is lost.
///
/// A plan of blocks becomes a plan in the event model, whose files are sent as soon as they are written. The call takes time in proportion to the
/// number of remaining tasks. If nothing has changed, a plan whose evicted files can be read back stays the same:
///
/// ```
/// use armature_planner::workflow::{Cluster, Processor, Situation, TaskMemory, Workflow, heftm_relaxed, retrace};
///
/// let mut builder = Workflow::builder();
/// for task in 0..200 {
///     builder.task(format!("t{task}"), 1.0 + (task % 7) as f64, 1 + task % 5);
/// }
/// (1..200).for_each(|task| builder.edge(task / 2, task, 1));
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("p", 1.0, 1000); 4], 1.0)?;
/// let plan = heftm_relaxed(&workflow, &cluster, workflow.topological_order(), TaskMemory::Additive)?;
/// let start = Situation::new(&workflow, &cluster);
/// assert_eq!(retrace(&workflow, &cluster, &plan, &start), Some(plan.clone()));
///
/// let halfway = start.later(&workflow, &plan, plan.makespan / 2.0);
/// let slower = workflow.clone().with_measured([(workflow.len() - 1, 1e6, 1)])?;
/// let later = retrace(&slower, &cluster, &plan, &halfway).expect("it needs no more memory");
/// assert!(later.makespan > plan.makespan);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn retrace(graph: &Workflow, cluster: &Cluster, plan: &Plan, situation: &Situation) -> Option<Plan> {
    let mut timeline = Timeline::resume(graph, cluster, rules(plan.task_memory), situation);
    let waits = |task: &usize| situation.progress(*task) == Progress::Waiting;
    let rest: Vec<usize> = plan.sequence.iter().copied().filter(waits).collect();
    place_as_assigned(&mut timeline, &rest, &plan.processor_of)?;
    Some(timeline.into_plan())
}

pub(super) fn place_as_assigned(
    timeline: &mut Timeline<'_>,
    sequence: &[usize],
    processor_of: &[usize],
) -> Option<()> {
    for &task in sequence {
        let inputs = timeline.inputs(task);
        timeline.place(task, processor_of[task], &inputs)?;
    }
    Some(())
}

/// Plans the remaining tasks of a run by list scheduling, in which another task comes first while the next task fits on no processor (relaxed HEFTM).
/// Plans are made in the orders of [`Level::Bottom`], of [`Level::BottomWithInputs`] and of least memory. Further plans, with fewer sent and evicted
/// files, are made in the order of least memory with clusters of tasks that stay on one processor. Returns the best plan.
///
/// # Errors
/// [`ErrorKind::Infeasible`](crate::ErrorKind::Infeasible) if no order leads to a plan.
pub fn plan_rest(
    graph: &Workflow,
    cluster: &Cluster,
    situation: &Situation,
    task_memory: TaskMemory,
) -> Result<Plan> {
    let waits = |task: &usize| situation.progress(*task) == Progress::Waiting;
    let by_level =
        |level| -> Vec<usize> { order_by_level(graph, cluster, level).into_iter().filter(waits).collect() };
    let rest: Vec<usize> = graph.topological_order().iter().copied().filter(waits).collect();
    let model = MemoryModel { task_memory, crossing: Crossing::Transit };
    let (bottom, with_inputs) = (by_level(Level::Bottom), by_level(Level::BottomWithInputs));
    let least_memory = Traversal::of(graph, &rest, model).order;
    let mut starts: Vec<(&Vec<usize>, Option<Vec<usize>>)> =
        vec![(&bottom, None), (&with_inputs, None), (&least_memory, None)];
    let clustered = Merge::ALL.iter().filter_map(|&merge| clusters(graph, cluster, merge));
    starts.extend(clustered.map(|clusters| (&least_memory, Some(clusters))));
    let plans = parallel::answers(&starts, 0, |(order, clusters)| {
        let mut timeline = Timeline::resume(graph, cluster, rules(task_memory), situation);
        let homes = clusters.as_ref().map(|of| Homes::resume(graph, cluster, of, situation));
        place_relaxed(&mut timeline, graph, cluster, order, homes)?;
        Ok(timeline.into_plan())
    });
    first_best(graph, plans)
}

/// Returns a plan for the rest of a run: the [retraced](retrace) old plan, or a [new plan](plan_rest) if the old one no longer fits or the new one is
/// shorter by more than `planning_time` seconds.
///
/// # Errors
/// See [`plan_rest`], if the old plan no longer fits.
pub fn replan(
    graph: &Workflow,
    cluster: &Cluster,
    plan: &Plan,
    situation: &Situation,
    planning_time: f64,
) -> Result<Replanned> {
    let kept = retrace(graph, cluster, plan, situation);
    let fresh = plan_rest(graph, cluster, situation, plan.task_memory);
    match (kept, fresh) {
        (Some(kept), Ok(fresh)) if fresh.makespan + planning_time < kept.makespan => {
            Ok(Replanned { plan: fresh, kept: false })
        }
        (Some(plan), _) => Ok(Replanned { plan, kept: true }),
        (None, fresh) => Ok(Replanned { plan: fresh?, kept: false }),
    }
}

fn first_best(graph: &Workflow, plans: Vec<Result<Plan>>) -> Result<Plan> {
    let shortest = plans.iter().flatten().map(|plan| plan.makespan).fold(f64::INFINITY, f64::min);
    let worth = |plan: &Plan| Worth::of(graph, plan);
    plans
        .into_iter()
        .reduce(|best, other| match (&best, &other) {
            (Ok(first), Ok(second)) if worth(second).is_better(&worth(first), shortest) => other,
            (Err(_), Ok(_)) => other,
            _ => best,
        })
        .expect("an order by each level was tried")
}

/// Returns the placement rules for changed plans, with which a task can read evicted files back from the buffer.
pub(super) fn rules(task_memory: TaskMemory) -> Rules {
    Rules { task_memory, read_back: true, memory_blind: false }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::cluster::Processor;
    use crate::workflow::{PlanOptions, plan};

    /// Each pair of large files is read by one task. A planner that places one task at a time would put the tasks that write a pair on different
    /// processors.
    #[test]
    fn replanning_keeps_related_tasks_together() {
        let mut builder = Workflow::builder();
        for pair in 0..24 {
            let files = ["left", "right"].map(|side| builder.task(format!("{side} {pair}"), 1.0, 1));
            let reader = builder.task(format!("reader {pair}"), 1.0, 1);
            files.into_iter().for_each(|file| builder.edge(file, reader, 16));
        }
        let graph = builder.build().unwrap();
        let cluster = Cluster::new(vec![Processor::new("p", 1.0, 128).with_buffer(1 << 20); 2], 1e6).unwrap();
        let first = plan(&graph, &cluster, &PlanOptions::default()).unwrap().plan;
        assert_eq!((first.sent_bytes(&graph), first.evicted_bytes(&graph)), (0, 0));
        let situation = Situation::new(&graph, &cluster).later(&graph, &first, first.makespan / 4.0);
        // During the run the second processor becomes half as fast.
        let unequal = cluster.with_speeds(&[1.0, 0.5]).unwrap();
        let Replanned { plan, kept } = replan(&graph, &unequal, &first, &situation, 0.1).unwrap();
        assert!(!kept && plan.makespan < 1.6 * first.makespan, "{}", plan.makespan);
        // One writer of a pair may have written its file before replanning. The other writer and the reader may then run on the other processor,
        // which requires sending files.
        assert!(plan.sent_bytes(&graph) <= 2 * 16 && plan.evicted_bytes(&graph) == 0, "{plan:?}");
    }
}

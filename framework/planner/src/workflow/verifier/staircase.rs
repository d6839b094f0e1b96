//! Contents of each processor's memory over time in a workflow plan.

use super::case::Case;
use super::steps::Stairs;
use super::{Verification, blocks, residence, shape};
use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::plan::{Execution, Plan};
use crate::workflow::situation::Situation;

/// Returns for each processor the steps of its memory use in a plan: the time in seconds, and the bytes in memory from that time on. Of several
/// changes at the same time only the last one is a step. Memory that is used only within one point in time is therefore in no step, although it
/// counts in [`peak`](Verification::peak). There are no steps if the plan violates the rules of [shape](super::Rule::Shape) or order.
///
/// ```
/// use armature_planner::workflow::{Cluster, Level, Processor, TaskMemory, Workflow, heftm, memory_over_time};
///
/// let mut builder = Workflow::builder();
/// builder.task("write", 2.0, 3);
/// builder.task("read", 1.0, 1);
/// builder.edge(0, 1, 5);
/// let workflow = builder.build()?;
/// let cluster = Cluster::new(vec![Processor::new("p", 1.0, 10)], 1.0)?;
/// let plan = heftm(&workflow, &cluster, Level::Bottom, TaskMemory::Additive)?;
///
/// // Each task holds its own memory and the file.
/// assert_eq!(memory_over_time(&workflow, &cluster, &plan), [[(0.0, 8), (2.0, 6), (3.0, 0)]]);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn memory_over_time(graph: &Workflow, cluster: &Cluster, plan: &Plan) -> Vec<Stairs> {
    let situation = &Situation::new(graph, cluster);
    let mut verification = Verification::of(cluster, plan);
    let case = Case { graph, cluster, plan, situation };
    shape::check(case, &mut verification);
    if !verification.is_valid() {
        return vec![Stairs::new(); cluster.len()];
    }
    match plan.execution {
        Execution::Blocks { crossing } => blocks::staircase(graph, plan, crossing),
        Execution::Events => residence::staircase(case, &mut verification),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workflow::generate::{Family, paper_cluster};
    use crate::workflow::{Level, TaskMemory, heftm, verify};

    #[test]
    fn memory_steps_reach_the_peak_and_end_at_zero() {
        let workflow = Family::Montage.build(200, 1).unwrap();
        let cluster = paper_cluster(3, 10, 1.0).unwrap();
        let plan = heftm(&workflow, &cluster, Level::Bottom, TaskMemory::Additive).unwrap();
        let verification = verify(&workflow, &cluster, &plan);
        let stairs = memory_over_time(&workflow, &cluster, &plan);
        assert_eq!(stairs.len(), cluster.len());
        for (steps, peak) in stairs.iter().zip(&verification.peak) {
            assert!(steps.windows(2).all(|two| two[0].0 < two[1].0));
            assert_eq!(steps.iter().map(|step| step.1).max().unwrap_or(0), *peak);
            assert_eq!(steps.last().map_or(0, |step| step.1), 0);
        }
    }

    #[test]
    fn plan_of_another_workflow_has_no_steps() {
        let workflow = Family::Montage.build(200, 1).unwrap();
        let other = Family::Montage.build(100, 1).unwrap();
        let cluster = paper_cluster(3, 10, 1.0).unwrap();
        let plan = heftm(&other, &cluster, Level::Bottom, TaskMemory::Additive).unwrap();
        assert!(memory_over_time(&workflow, &cluster, &plan).iter().all(Vec::is_empty));
    }
}

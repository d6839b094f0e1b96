//! Random workflows and clusters for property tests of this crate and of the planner.

use armature_planner::workflow::{Cluster, TaskMemory, Workflow};
use proptest::prelude::*;

use super::{RandomCluster, RandomWorkflow};

/// Generates a workflow of at most `most_tasks` tasks, and a cluster in which each task alone fits on some processor.
pub fn problem(most_tasks: usize) -> impl Strategy<Value = (Workflow, Cluster, TaskMemory)> {
    let workflow = (1..=most_tasks, 0..5_usize, 1..40_usize, any::<u64>(), 1..60_u64);
    let cluster = (1..6_usize, 1.0..3.0_f64, 0.2..1.0_f64, prop_oneof![Just(0.0), 0.0..2.0_f64, Just(10.0)]);
    (workflow, cluster, any::<bool>(), any::<bool>()).prop_map(
        |(workflow, cluster, additive, has_one_value)| {
            let (tasks, parents, reach, seed, size) = workflow;
            let (processors, largest, smallest, buffer) = cluster;
            let task_memory = if additive { TaskMemory::Additive } else { TaskMemory::IncludesIo };
            // The generators of workflows and clusters accept all parameters of these ranges, so `unwrap` never
            // panics.
            let workflow = RandomWorkflow { tasks, parents, reach, size, ..RandomWorkflow::default() };
            let mut workflow = workflow.build(seed).unwrap();
            if has_one_value {
                workflow = workflow.with_one_value_a_task().unwrap();
            }
            let cluster = RandomCluster { processors, largest, smallest, buffer };
            let disk = if seed % 2 == 0 { f64::INFINITY } else { 1.0 };
            let cluster = cluster.build(&workflow, task_memory, seed).unwrap().with_disk(disk).unwrap();
            (workflow, cluster, task_memory)
        },
    )
}

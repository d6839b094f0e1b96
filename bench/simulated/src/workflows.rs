//! Input file of the benchmark program that runs a workflow on simulated hosts.

use armature::workflow::{Action, Cluster, Description, Plan, Processor, Task, TaskMemory};
use serde::{Deserialize, Serialize};

use crate::RunResult;

/// Workflow with the memory limits of the ranks and the plan (assignment of tasks to ranks) that the ranks follow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Number of floating-point operations of each task.
    pub work: Vec<f64>,
    /// Memory of each task in bytes.
    pub memory: Vec<u64>,
    /// Edges of the workflow: writer, reader, size in bytes.
    pub edges: Vec<(usize, usize, u64)>,
    /// Rule that determines whether the memory of a task includes its input and output files.
    pub task_memory: TaskMemory,
    /// Memory limit of each rank in bytes.
    pub ranks: Vec<u64>,
    /// Assignment of tasks to ranks, and their order.
    pub plan: Plan,
}

/// Name of the closure that all tasks run, which declares their work to the simulator.
pub const DECLARES: &str = "declares";

impl Job {
    /// Returns the description of the workflow for the runtime.
    ///
    /// # Errors
    /// If the edges refer to tasks that do not exist or form a cycle.
    pub fn describe(&self) -> RunResult<Description> {
        let mut builder = Description::builder("simulated");
        for (task, &memory) in self.memory.iter().enumerate() {
            let mut task = Task::new(task.to_string(), Action::Closure(DECLARES.into()));
            task.memory = Some(memory);
            builder.task(task);
        }
        for &(from, to, size) in &self.edges {
            builder.edge(from.to_string(), to.to_string(), size);
        }
        Ok(builder.build()?)
    }

    /// Returns the ranks with their memory limits as a cluster of processors.
    ///
    /// # Errors
    /// If there are no ranks.
    pub fn cluster(&self) -> RunResult<Cluster> {
        let rank = |(rank, &memory): (usize, &u64)| Processor::new(rank.to_string(), 1.0, memory);
        Ok(Cluster::new(self.ranks.iter().enumerate().map(rank).collect(), f64::INFINITY)?)
    }

    /// Returns the output size of each task in bytes: the size of the largest edge from the task.
    pub fn value_bytes(&self) -> Vec<u64> {
        let mut value_bytes = vec![0; self.work.len()];
        for &(from, _, size) in &self.edges {
            value_bytes[from] = size.max(value_bytes[from]);
        }
        value_bytes
    }
}

//! What the program for simulated workflows is told, in a file.

use armature::workflow::{Action, Cluster, Description, Plan, Processor, Task, TaskMemory};
use serde::{Deserialize, Serialize};

use crate::Outcome;

/// A workflow, the ranks that it runs on, and the plan that they follow.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Job {
    /// Operations of each task.
    pub work: Vec<f64>,
    /// Bytes of memory of each task.
    pub memory: Vec<u64>,
    /// Who reads from whom, and how many bytes: writer, reader, size.
    pub edges: Vec<(usize, usize, u64)>,
    /// What the memory of tasks means.
    pub task_memory: TaskMemory,
    /// Bytes that each rank may hold.
    pub ranks: Vec<u64>,
    /// Where tasks run, and in which order.
    pub plan: Plan,
}

/// The closure of all tasks.
pub const DECLARES: &str = "declares";

impl Job {
    /// What the runtime is to run.
    ///
    /// # Errors
    /// If edges are not those of a graph without cycles, between these tasks.
    pub fn describe(&self) -> Outcome<Description> {
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

    /// The ranks with their memory.
    ///
    /// # Errors
    /// If there are none.
    pub fn cluster(&self) -> Outcome<Cluster> {
        let rank = |(rank, &memory): (usize, &u64)| Processor::new(rank.to_string(), 1.0, memory);
        Ok(Cluster::new(self.ranks.iter().enumerate().map(rank).collect(), f64::INFINITY)?)
    }

    /// Bytes that each task gives: one value for all that read it.
    pub fn gives(&self) -> Vec<u64> {
        let mut gives = vec![0; self.work.len()];
        for &(from, _, size) in &self.edges {
            gives[from] = size.max(gives[from]);
        }
        gives
    }
}

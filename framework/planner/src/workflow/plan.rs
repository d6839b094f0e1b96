//! Plan of a workflow: the output of the planners and the input of the verifier.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::graph::{Edge, Workflow};
use super::memory::{Crossing, TaskMemory};

/// Execution model of a plan, which defines the meaning of its times.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// Each processor runs one block of tasks. A block begins when all files that its tasks read have arrived, and sends the files that its tasks
    /// write at its end. The files between two blocks are one message.
    Blocks {
        /// Time for which files between blocks of tasks occupy memory.
        crossing: Crossing,
    },
    /// Event model: a file is sent when the task that writes it has ended. [`Transfer`]s and [`Eviction`]s define in which memory or buffer each file
    /// is at any time.
    Events,
}

/// Transfer of a file between two tasks to another processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Transfer {
    /// Number of the edge (file) of the workflow.
    pub edge: usize,
    /// Time at which the transfer begins, in seconds.
    pub start: f64,
    /// Time at which the whole file has arrived, in seconds.
    pub finish: f64,
    /// True if the file waits for its reader in the receiver's buffer, and false if it waits in the receiver's memory.
    pub to_buffer: bool,
}

/// Eviction: the move of a file from the memory of a processor to its buffer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Eviction {
    /// Number of the edge (file) of the workflow.
    pub edge: usize,
    /// Time at which the file has left the memory of the processor, in seconds.
    pub at: f64,
    /// Task for which the eviction frees memory on the processor. The file leaves the memory after the previous task has ended, and before the memory
    /// of this task is reserved.
    pub before: usize,
}

/// Plan of a workflow: processor, order and times of all tasks, and the moves of their files between memories and buffers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Plan {
    /// Execution model of the plan.
    pub execution: Execution,
    /// Meaning of the memory of a task for which the plan was made.
    pub task_memory: TaskMemory,
    /// Processor of each task.
    pub processor_of: Vec<usize>,
    /// Tasks of each processor, in the order of execution.
    pub orders: Vec<Vec<usize>>,
    /// All tasks in the order in which they were placed. The tasks of a processor are in the order of execution, and each task is after those from
    /// which it reads. If two files use the same channel between two processors, the file whose reader was placed first is sent first.
    pub sequence: Vec<usize>,
    /// Predicted start of each task, in seconds.
    pub start: Vec<f64>,
    /// Predicted end of each task, in seconds.
    pub finish: Vec<f64>,
    /// Predicted end of the last task, in seconds.
    pub makespan: f64,
    /// Peak memory of each processor as predicted by the planner; the actual peak may be smaller.
    pub peak: Vec<u64>,
    /// Files that are sent to another processor, in the order in which they were planned; empty with [`Execution::Blocks`].
    pub transfers: Vec<Transfer>,
    /// Files that are moved from memory to a buffer; empty with [`Execution::Blocks`].
    pub evictions: Vec<Eviction>,
}

impl Plan {
    /// Creates a plan for `tasks` tasks and `processors` processors, in which no task has been placed and all times are 0.
    pub fn empty(execution: Execution, task_memory: TaskMemory, tasks: usize, processors: usize) -> Self {
        Plan {
            execution,
            task_memory,
            processor_of: vec![0; tasks],
            orders: vec![Vec::new(); processors],
            sequence: Vec::with_capacity(tasks),
            start: vec![0.0; tasks],
            finish: vec![0.0; tasks],
            makespan: 0.0,
            peak: vec![0; processors],
            transfers: Vec::new(),
            evictions: Vec::new(),
        }
    }

    /// Returns the total size of all evicted files.
    pub fn evicted_bytes(&self, graph: &Workflow) -> u64 {
        self.evictions.iter().map(|eviction| graph.edges()[eviction.edge].size).sum()
    }

    /// Returns the total size of all transfers. If each task writes one value for all tasks that read from it, the value counts once for each
    /// receiving processor.
    pub fn sent_bytes(&self, graph: &Workflow) -> u64 {
        let mut sent = HashSet::new();
        let is_transferred = |edge: &&Edge| {
            let (from, to) = (self.processor_of[edge.from], self.processor_of[edge.to]);
            from != to && (!graph.has_one_value_a_task() || sent.insert((edge.from, to)))
        };
        graph.edges().iter().filter(is_transferred).map(|edge| edge.size).sum()
    }

    /// Returns the number of processors that run a task.
    pub fn used(&self) -> usize {
        self.orders.iter().filter(|order| !order.is_empty()).count()
    }
}

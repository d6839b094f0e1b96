//! What planners put out, and the verifier judges.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::graph::{Edge, Workflow};
use super::memory::{Crossing, TaskMemory};

/// How a plan is run, and so what its times mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Execution {
    /// Each processor runs one block of tasks, begins when all that its block reads is there, and sends when the block is done.
    /// The files between two blocks are one message.
    Blocks {
        /// How long files between blocks are counted.
        crossing: Crossing,
    },
    /// A file is sent when its producer ends; [`Transfer`]s and [`Eviction`]s say where each file is at any moment.
    Events,
}

/// A file that goes to another processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Transfer {
    /// The number of its edge.
    pub edge: usize,
    /// When sending begins, in seconds.
    pub start: f64,
    /// When all of it has arrived.
    pub finish: f64,
    /// Whether it waits for its consumer in the receiver's buffer; otherwise it does in the memory.
    pub to_buffer: bool,
}

/// A file that leaves memory for the buffer of the same processor.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Eviction {
    /// The number of its edge.
    pub edge: usize,
    /// When it has left the memory, in seconds.
    pub at: f64,
    /// The task on that processor which could not run otherwise. The file leaves after the task before it has ended, and before the
    /// memory for this one is taken.
    pub before: usize,
}

/// Which processor runs which tasks in which order, when, and where their files are meanwhile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// How it is to be run.
    pub execution: Execution,
    /// What the tasks' memory was taken for.
    pub task_memory: TaskMemory,
    /// Processor of each task.
    pub processor_of: Vec<usize>,
    /// Tasks of each processor, in the order in which it runs them.
    pub orders: Vec<Vec<usize>>,
    /// All tasks in the order in which they were placed: those of a processor in its order, and each after those that it reads
    /// from. Where two files use a channel, that of the reader that was placed first is sent first.
    pub sequence: Vec<usize>,
    /// When each task is predicted to start, in seconds.
    pub start: Vec<f64>,
    /// When each task is predicted to end.
    pub finish: Vec<f64>,
    /// When the last task ends.
    pub makespan: f64,
    /// Most memory of each processor that the planner counted; what is really held may be less.
    pub peak: Vec<u64>,
    /// All files that go to another processor, in the order in which their channels carry them. None in a plan of blocks.
    pub transfers: Vec<Transfer>,
    /// All files that are evicted. None in a plan of blocks.
    pub evictions: Vec<Eviction>,
}

impl Plan {
    /// Bytes of all files that are evicted.
    pub fn evicted_bytes(&self, graph: &Workflow) -> u64 {
        self.evictions.iter().map(|eviction| graph.edges()[eviction.edge].size).sum()
    }

    /// Bytes that go from one processor to another. Where tasks write one value for all readers, it goes to each processor once.
    pub fn sent_bytes(&self, graph: &Workflow) -> u64 {
        let mut sent = HashSet::new();
        let goes = |edge: &&Edge| {
            let (from, to) = (self.processor_of[edge.from], self.processor_of[edge.to]);
            from != to && (!graph.has_one_value_a_task() || sent.insert((edge.from, to)))
        };
        graph.edges().iter().filter(goes).map(|edge| edge.size).sum()
    }

    /// Number of processors that run something.
    pub fn used(&self) -> usize {
        self.orders.iter().filter(|order| !order.is_empty()).count()
    }
}

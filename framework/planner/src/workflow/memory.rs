//! Memory model: meaning of the memory of a task, and lifetime of files that are transferred between processors.

use serde::{Deserialize, Serialize};

/// Meaning of the memory of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TaskMemory {
    /// The memory is that of the task's own data; input and output files are additional while the task runs. The task needs the sum of memory,
    /// inputs and outputs. This is the formula of the paper.
    #[default]
    Additive,
    /// The memory includes the files that the task reads and writes, as operating systems measure it. The task needs the maximum of memory, inputs
    /// and outputs.
    IncludesIo,
}

/// Time for which files from or to another processor occupy memory on the processor of their consumer or producer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// Input from another processor only while its consumer runs, output for another processor only while its producer runs.
    #[default]
    Transit,
    /// Input from another processor from the beginning of the block that reads it until its consumer has ended, and output for another processor
    /// from the start of its producer until the end of the block.
    Resident,
}

/// Memory model of a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryModel {
    /// Meaning of the memory of a task.
    pub task_memory: TaskMemory,
    /// Lifetime of files that are transferred between blocks.
    pub crossing: Crossing,
}

impl MemoryModel {
    /// Creates a model with this meaning of the memory of a task, in which files between blocks are in [transit](Crossing::Transit).
    pub const fn new(task_memory: TaskMemory) -> Self {
        MemoryModel { task_memory, crossing: Crossing::Transit }
    }
}

impl TaskMemory {
    /// Returns the memory that a task needs while it runs, including all of its inputs and outputs: r of the paper.
    pub fn requirement(self, memory: u64, inputs: u64, outputs: u64) -> u64 {
        match self {
            TaskMemory::Additive => memory + inputs + outputs,
            TaskMemory::IncludesIo => memory.max(inputs).max(outputs),
        }
    }
}

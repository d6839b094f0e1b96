//! Memory model of workflow plans: meaning of the memory of a task, and lifetime of files that are transferred between processors.

use serde::{Deserialize, Serialize};

/// Meaning of the number that a workflow gives as memory of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum TaskMemory {
    /// The memory of a task is that of its own data; its input and output files need additional memory while the task runs. The task needs the sum of
    /// memory, inputs and outputs. This is the formula of the paper of Kulagina et al.
    #[default]
    Additive,
    /// The memory of a task includes the files that it reads and writes, as operating systems measure it. The task needs the maximum of memory,
    /// inputs and outputs.
    IncludesIo,
}

/// Time for which files between two processors occupy memory on the processors of their writer and reader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// An input from another processor occupies memory only while its reader runs, and an output for another processor only while its writer runs.
    #[default]
    Transit,
    /// An input from another processor occupies memory from the beginning of the block of tasks that reads it until its reader has ended. An output
    /// for another processor occupies memory from the start of its writer until the end of the block.
    Resident,
}

/// Memory model of a workflow plan: the rules by which memory use is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
#[non_exhaustive]
pub struct MemoryModel {
    /// Meaning of the number that the workflow gives as memory of a task.
    pub task_memory: TaskMemory,
    /// Time for which files between blocks of tasks occupy memory.
    pub crossing: Crossing,
}

impl MemoryModel {
    /// Creates a memory model with the given meaning of the memory of a task, in which files between blocks are in [transit](Crossing::Transit).
    pub const fn new(task_memory: TaskMemory) -> Self {
        MemoryModel { task_memory, crossing: Crossing::Transit }
    }
}

impl TaskMemory {
    /// Returns the memory that a task needs while it runs, including all of its inputs and outputs (r in the paper of Kulagina et al.).
    pub fn requirement(self, memory: u64, inputs: u64, outputs: u64) -> u64 {
        match self {
            TaskMemory::Additive => memory + inputs + outputs,
            TaskMemory::IncludesIo => memory.max(inputs).max(outputs),
        }
    }
}

//! What a task's memory means, and how long files that cross between processors are counted.

use serde::{Deserialize, Serialize};

/// What the memory of a task holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskMemory {
    /// Its own data only: while the task runs, its input and output files are there besides. The task needs the sum of the
    /// three. This is the formula of the paper.
    #[default]
    Additive,
    /// All that it needs, the files that it reads and writes among it, as operating systems measure it. The task needs the
    /// largest of its memory, its inputs and its outputs.
    IncludesIo,
}

/// How long files that come from another processor, or go to one, take memory where their consumer or producer runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Crossing {
    /// Input from elsewhere only while its consumer runs, output for elsewhere only while its producer runs.
    #[default]
    Transit,
    /// Input from elsewhere from the beginning of the block that reads it until its consumer has ended, output for elsewhere
    /// from when its producer starts until the end of the block.
    Resident,
}

/// How memory is counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct MemoryModel {
    /// What the memory of a task holds.
    pub task_memory: TaskMemory,
    /// How long files that cross between blocks are counted.
    pub crossing: Crossing,
}

impl TaskMemory {
    /// What a task with this memory needs while it runs, with all of its inputs and outputs: r of the paper.
    pub fn requirement(self, memory: u64, inputs: u64, outputs: u64) -> u64 {
        match self {
            TaskMemory::Additive => memory + inputs + outputs,
            TaskMemory::IncludesIo => memory.max(inputs).max(outputs),
        }
    }
}

//! Block: a subgraph of a workflow that one processor runs.

use crate::workflow::graph::{Edge, Workflow};
use crate::workflow::memory::{Crossing, MemoryModel};

/// Tasks of a block of a workflow, with local numbers from 0, and the edges between them.
#[derive(Debug)]
pub struct TaskBlock {
    /// Numbers of the block's tasks in the workflow, in ascending order.
    tasks: Vec<usize>,
    needs: Vec<u64>,
    /// Total size of the inputs of each task that occupy memory from the beginning of the block on.
    arriving: Vec<u64>,
    /// Total size of the outputs of each task that occupy memory until the end of the block.
    leaving: Vec<u64>,
    /// Edges within the block, sorted by the task that writes the file.
    outputs: Vec<Edge>,
    first_output: Vec<usize>,
    /// Edges within the block, sorted by the task that reads the file.
    inputs: Vec<Edge>,
    first_input: Vec<usize>,
}

impl TaskBlock {
    /// Creates the block that consists of the given tasks. Each task must be named once.
    pub fn new(workflow: &Workflow, tasks: &[usize], model: MemoryModel) -> Self {
        let mut tasks = tasks.to_vec();
        tasks.sort_unstable();
        let count = tasks.len();
        // A table of local numbers avoids a search in `tasks` for each edge. A task may have as many edges as there are tasks, and the searches
        // would then dominate the run time.
        let mut local_of = vec![usize::MAX; workflow.len()];
        for (local, &task) in tasks.iter().enumerate() {
            local_of[task] = local;
        }
        let mut block = TaskBlock {
            needs: tasks.iter().map(|&task| workflow.requirement(task, model.task_memory)).collect(),
            arriving: vec![0; count],
            leaving: vec![0; count],
            outputs: Vec::new(),
            first_output: vec![0],
            inputs: Vec::new(),
            first_input: vec![0],
            tasks,
        };
        for local in 0..count {
            let task = block.tasks[local];
            for edge in workflow.outputs(task) {
                match local_of[edge.to] {
                    usize::MAX => block.leaving[local] += edge.size,
                    to => block.outputs.push(Edge { from: local, to, size: edge.size }),
                }
            }
            block.first_output.push(block.outputs.len());
            for edge in workflow.inputs(task) {
                match local_of[edge.from] {
                    usize::MAX => block.arriving[local] += edge.size,
                    from => block.inputs.push(Edge { from, to: local, size: edge.size }),
                }
            }
            block.first_input.push(block.inputs.len());
        }
        if model.crossing == Crossing::Transit {
            block.arriving.fill(0);
            block.leaving.fill(0);
        }
        block
    }

    /// Returns the number of tasks of the block.
    pub fn len(&self) -> usize {
        self.tasks.len()
    }

    /// Returns true if the block has no task.
    pub fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns the number in the workflow of task `local` of the block.
    pub fn task(&self, local: usize) -> usize {
        self.tasks[local]
    }

    /// Returns the number in the block of task `task` of the workflow, which must be in the block.
    pub fn local(&self, task: usize) -> usize {
        self.tasks.partition_point(|&other| other < task)
    }

    /// Returns the memory that a task of the block needs while it runs, including all of its files.
    pub fn need(&self, local: usize) -> u64 {
        self.needs[local]
    }

    /// Returns the size of the inputs of a task that are in memory from the beginning of the block.
    pub fn arriving(&self, local: usize) -> u64 {
        self.arriving[local]
    }

    /// Returns the size of the outputs of a task that stay in memory until the end of the block.
    pub fn leaving(&self, local: usize) -> u64 {
        self.leaving[local]
    }

    /// Returns the edges from a task to other tasks of the block.
    pub fn outputs(&self, local: usize) -> &[Edge] {
        &self.outputs[self.first_output[local]..self.first_output[local + 1]]
    }

    /// Returns the edges to a task from other tasks of the block.
    pub fn inputs(&self, local: usize) -> &[Edge] {
        &self.inputs[self.first_input[local]..self.first_input[local + 1]]
    }

    /// Returns the size of the input files that waited in memory for a task, which the task frees at its end.
    pub fn freed(&self, local: usize) -> u64 {
        self.arriving[local] + self.inputs(local).iter().map(|edge| edge.size).sum::<u64>()
    }

    /// Returns the size of the output files that a task leaves in memory at its end.
    pub fn kept(&self, local: usize) -> u64 {
        self.leaving[local] + self.outputs(local).iter().map(|edge| edge.size).sum::<u64>()
    }

    /// Returns a lower bound of the peak memory of any order: the memory that the largest task needs.
    pub fn least_peak(&self) -> u64 {
        self.needs.iter().copied().max().unwrap_or(0)
    }

    /// Returns the peak memory of the block when its tasks run in the given order.
    pub fn peak(&self, order: &[usize]) -> u64 {
        let mut live: u64 = self.arriving.iter().sum();
        let mut peak = live;
        for &local in order {
            live -= self.freed(local);
            peak = peak.max(live + self.needs[local]);
            live += self.kept(local);
        }
        peak
    }
}

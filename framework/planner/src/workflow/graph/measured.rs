//! A workflow with what was measured of its tasks.

use super::{Workflow, check_tasks, check_total, invalid, sizes_of};
use crate::error::Result;

impl Workflow {
    /// The same workflow with other work and memory of some tasks (task, work, memory), as they were measured.
    ///
    /// # Errors
    /// [`ErrorKind::Workflow`](crate::ErrorKind::Workflow) if there is no such task, or for the numbers that [`build`](super::WorkflowBuilder::build) refuses.
    pub fn with_measured(mut self, measured: impl IntoIterator<Item = (usize, f64, u64)>) -> Result<Self> {
        for (task, work, memory) in measured {
            self.check_task(task)?;
            (self.works[task], self.memories[task]) = (work, memory);
        }
        check_tasks(&self.names, &self.works)?;
        check_total(&self.memories, &self.edges)?;
        Ok(self)
    }

    /// The same workflow where all files that some tasks write (task, size) have this size, as it was measured.
    ///
    /// # Errors
    /// [`ErrorKind::Workflow`](crate::ErrorKind::Workflow) if there is no such task, or sizes become larger than [`build`](super::WorkflowBuilder::build) allows.
    pub fn with_output_sizes(mut self, sizes: impl IntoIterator<Item = (usize, u64)>) -> Result<Self> {
        for (task, size) in sizes {
            self.check_task(task)?;
            let files = self.output_numbers(task);
            self.edges[files].iter_mut().for_each(|edge| edge.size = size);
        }
        check_total(&self.memories, &self.edges)?;
        self.sizes = sizes_of(self.len(), &self.edges);
        Ok(self)
    }

    fn check_task(&self, task: usize) -> Result<()> {
        match task < self.len() {
            true => Ok(()),
            false => Err(invalid(format!("there is no task {task}, but {}, numbered from 0", self.len()))),
        }
    }
}

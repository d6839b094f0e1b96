//! Workflows with measured works, memories and file sizes.

use super::{Workflow, check_tasks, check_total, invalid, sizes_of};
use crate::error::Result;

impl Workflow {
    /// Sets work and memory of some tasks to measured values. Each element of `measured` is (task, work, memory).
    ///
    /// # Errors
    /// [`ErrorKind::Workflow`](crate::ErrorKind::Workflow) if a task does not exist, or [`build`](super::WorkflowBuilder::build) would reject a
    /// number.
    pub fn with_measured(mut self, measured: impl IntoIterator<Item = (usize, f64, u64)>) -> Result<Self> {
        for (task, work, memory) in measured {
            self.check_task(task)?;
            (self.works[task], self.memories[task]) = (work, memory);
        }
        check_tasks(&self.names, &self.works)?;
        check_total(&self.memories, &self.edges)?;
        Ok(self)
    }

    /// Sets the size of all files that some tasks write to measured values. Each element of `sizes` is (task, size).
    ///
    /// # Errors
    /// [`ErrorKind::Workflow`](crate::ErrorKind::Workflow) if a task does not exist, or the sizes exceed the limits of
    /// [`build`](super::WorkflowBuilder::build).
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

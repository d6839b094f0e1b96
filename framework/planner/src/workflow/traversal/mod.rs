//! Orders in which one processor runs a block of a workflow's tasks, so that its peak memory is small.
//!
//! The best of three simple orders is taken. The crate `armature-papers` has another order of tasks, which is optimal for series-parallel graphs.

mod block;
mod simple;

use super::graph::Workflow;
use super::memory::MemoryModel;
pub use block::TaskBlock;
pub use simple::{breadth_first, depth_first, greedy};

/// Order of the tasks of a block and its peak memory; the default is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traversal {
    /// Tasks in the order in which they run.
    pub order: Vec<usize>,
    /// Peak memory when the tasks run in this order.
    pub peak: u64,
}

impl Traversal {
    /// Returns the order with the smallest peak memory that is found for these tasks as one block of the workflow. Each task must be named once.
    ///
    /// ```
    /// use armature_planner::workflow::{MemoryModel, Traversal, Workflow};
    ///
    /// // Two branches: in each, one task writes a large file and another one reads it.
    /// let mut builder = Workflow::builder();
    /// for name in ["make a", "make b", "sum a", "sum b"] {
    ///     builder.task(name, 1.0, 0);
    /// }
    /// builder.edge(0, 2, 10);
    /// builder.edge(1, 3, 10);
    /// let traversal = Traversal::of(&builder.build()?, &[0, 1, 2, 3], MemoryModel::default());
    /// // The branches run one after the other, so that only one file exists at a time.
    /// assert_eq!(traversal.peak, 10);
    /// assert!(traversal.order == [0, 2, 1, 3] || traversal.order == [1, 3, 0, 2]);
    /// # Ok::<(), armature_planner::Error>(())
    /// ```
    ///
    /// # Panics
    /// Panics if a task does not exist.
    pub fn of(workflow: &Workflow, tasks: &[usize], model: MemoryModel) -> Self {
        let block = TaskBlock::new(workflow, tasks, model);
        let candidates = [greedy, depth_first, breadth_first];
        let least = block.least_peak();
        let mut best: Option<(u64, Vec<usize>)> = None;
        for candidate in candidates {
            if best.as_ref().is_some_and(|best| best.0 == least) {
                break;
            }
            let order = candidate(&block);
            let peak = block.peak(&order);
            if best.as_ref().is_none_or(|best| peak < best.0) {
                best = Some((peak, order));
            }
        }
        let (peak, order) = best.unwrap_or_default();
        Traversal { order: order.into_iter().map(|local| block.task(local)).collect(), peak }
    }

    /// Computes the peak memory of an order of tasks as one block of the workflow. The order must be topological and name each task once.
    ///
    /// # Panics
    /// Panics if a task does not exist.
    pub fn in_order(workflow: &Workflow, order: Vec<usize>, model: MemoryModel) -> Self {
        let block = TaskBlock::new(workflow, &order, model);
        let local: Vec<usize> = order.iter().map(|&task| block.local(task)).collect();
        Traversal { peak: block.peak(&local), order }
    }
}

//! Orders of the tasks of a block on one processor with small peak memory.
//!
//! The order of Kayaaslan, Lambert, Marchal and Uçar (*Scheduling series-parallel task graphs to minimize peak memory*, 2018) is optimal for
//! series-parallel graphs; other graphs are first made series-parallel. The result is compared with the simple orders of the planner, by the peak
//! memory of each order on the original graph.

mod fork_tree;
mod segments;
mod series_parallel;

use armature_planner::workflow::{MemoryModel, TaskBlock, Traversal, Workflow};

/// Returns the order with the smallest peak memory that is found for these tasks as one block of the workflow. Each task must be named once.
///
/// ```
/// use armature_papers::workflow::least_memory;
/// use armature_planner::workflow::{MemoryModel, Workflow};
///
/// // After its source, one branch climbs to 20 and leaves 1; the other branch climbs to 12 and leaves 8.
/// let mut builder = Workflow::builder();
/// for (task, memory) in [0, 20, 4, 0].into_iter().enumerate() {
///     builder.task(task.to_string(), 1.0, memory);
/// }
/// for (from, to, size) in [(0, 1, 0), (0, 2, 0), (1, 3, 1), (2, 3, 8)] {
///     builder.edge(from, to, size);
/// }
/// let traversal = least_memory(&builder.build()?, &[0, 1, 2, 3], MemoryModel::default());
/// assert_eq!((traversal.order, traversal.peak), (vec![0, 1, 2, 3], 21));
/// # Ok::<(), armature_planner::Error>(())
/// ```
///
/// # Panics
/// Panics if a task does not exist.
pub fn least_memory(workflow: &Workflow, tasks: &[usize], model: MemoryModel) -> Traversal {
    let block = TaskBlock::new(workflow, tasks, model);
    let order = series_parallel::order(&block);
    let peak = block.peak(&order);
    if peak > block.least_peak() {
        let simple = Traversal::of(workflow, tasks, model);
        if simple.peak < peak {
            return simple;
        }
    }
    Traversal { order: order.into_iter().map(|local| block.task(local)).collect(), peak }
}

#[cfg(test)]
mod tests;

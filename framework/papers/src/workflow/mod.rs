//! Workflows of the papers: generators of workflows and clusters, and planners that assign blocks of tasks to processors.

mod best;
mod blocks;
pub mod generate;
mod partition;
mod traversal;

pub use best::plan_with_blocks;
pub use blocks::{DagHetPart, dag_het_mem, dag_het_part};
pub use partition::acyclic_partition;
pub use traversal::least_memory;

//! Workflows: generators, and planners of blocks.

mod best;
mod blocks;
pub mod generate;
mod partition;
mod traversal;

pub use best::plan_with_blocks;
pub use blocks::{DagHetPart, dag_het_mem, dag_het_part};
pub use partition::acyclic_partition;
pub use traversal::least_memory;

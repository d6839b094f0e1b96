//! Workflows and clusters of the papers of Kulagina, Meyerhenke and Benoit (2024 and 2025), and planners that assign
//! one block of tasks to each processor.

mod best;
mod blocks;
pub mod generate;
mod partition;
mod traversal;

pub use best::plan_with_blocks;
pub use blocks::{DagHetPart, dag_het_mem, dag_het_part};
pub use partition::acyclic_partition;
pub use traversal::least_memory;

//! Workflow plans in which each processor runs one block of tasks, and blocks send their files at their end.
//!
//! The planners follow *Mapping Large Memory-constrained Workflows onto Heterogeneous Platforms* (2024): [`dag_het_mem`] cuts an order with small
//! peak memory where a processor is full, and [`dag_het_part`] partitions the workflow first.

mod dag_het_mem;
mod dag_het_part;
mod placement;
mod quotient;

pub use dag_het_mem::dag_het_mem;
pub use dag_het_part::{DagHetPart, dag_het_part};

#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod reference_tests;

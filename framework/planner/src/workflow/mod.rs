//! Planning of workflows: dependent tasks on processors with limited memory.
//!
//! A [`Workflow`] is a directed acyclic graph. A task has work and memory; an edge has the size of the files that one task writes and another
//! reads. A [`Cluster`] has processors of different speed and memory, and the bandwidths between them.
//!
//! The planners follow *Mapping Large Memory-constrained Workflows onto Heterogeneous Platforms* (Kulagina, Meyerhenke and Benoit, 2024) and its
//! successor of 2025. Memory sizes are integers, so that checks whether files and tasks fit are exact.

mod best;
mod cluster;
mod exhaustive;
#[cfg(test)]
#[path = "../../../papers/src/workflow/generate/mod.rs"]
pub mod generate;
mod graph;
mod heftm;
mod local_search;
mod memory;
mod options;
mod parallel;
mod plan;
mod replan;
mod situation;
mod timeline;
mod traversal;
mod verifier;
mod worth;

pub use best::{Attempt, BestPlan, Planner, plan, plan_with};
pub use cluster::{Cluster, Processor};
pub use graph::{Edge, Workflow, WorkflowBuilder};
pub use heftm::{Level, Merge, heft, heftm, heftm_in_order, heftm_relaxed};
pub use memory::{Crossing, MemoryModel, TaskMemory};
pub use options::PlanOptions;
#[doc(hidden)]
pub use parallel::answers;
pub use plan::{Eviction, Execution, Plan, Transfer};
pub use replan::{Replanned, plan_rest, replan, retrace};
pub use situation::{FilePlace, Progress, Situation};
pub use traversal::Traversal;
#[doc(hidden)]
pub use traversal::{TaskBlock, breadth_first, depth_first, greedy};
pub use verifier::{Rule, Verification, Violation, memory_over_time, verify, verify_rest};

#[cfg(test)]
mod optimum_tests;
#[cfg(test)]
mod property_tests;
#[cfg(test)]
mod reference_tests;

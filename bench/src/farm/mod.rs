//! Farms that experiments run: their tasks, what is told to the ranks, and the rank programs with the framework.

pub mod chores;
pub mod job;
pub mod mortal;
pub mod simulated;
pub mod subject;
pub mod tiny;
pub mod tree;

pub use armature_bench_simulated::tasks;

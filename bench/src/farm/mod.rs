//! Farms of the experiments: tasks, parameters of the ranks, and the rank programs that use the framework.

pub mod chores;
pub mod job;
pub mod mortal;
pub mod simulated;
pub mod subject;
pub mod tiny;
pub mod tour;
pub mod tree;

pub use armature_bench_simulated::tasks;

//! Farms (master/worker programs) that the experiments run: their tasks, parameters, and rank programs.

pub mod job;
pub mod kill_run;
pub mod simulated;
pub mod slow_end;
pub mod task_set;
pub mod tested_program;
pub mod tiny;
pub mod tour;
pub mod tree;

pub use armature_bench_simulated::tasks;

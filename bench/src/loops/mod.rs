//! Parallel loops of the experiments: parameters, computations, and rank programs.

pub mod empty;
pub mod job;
pub mod kernels;
pub mod simulated;
pub mod tested_program;

//! Parallel loops that experiments run: what is run, its kernels, and the rank programs.

pub mod empty;
pub mod job;
pub mod kernels;
pub mod simulated;
pub mod subject;

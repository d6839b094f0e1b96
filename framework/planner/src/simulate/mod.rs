//! Small deterministic simulators that verify predictions.

pub mod farm;
#[cfg(test)]
mod farm_tests;
pub mod loops;
pub mod pipeline;

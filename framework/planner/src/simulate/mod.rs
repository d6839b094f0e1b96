//! Small deterministic simulators, against which predictions are checked.

pub mod farm;
#[cfg(test)]
mod farm_tests;
pub mod loops;
pub mod pipeline;

//! Small deterministic simulators that verify predictions.

#[cfg(feature = "farm")]
pub mod farm;
#[cfg(test)]
mod farm_tests;

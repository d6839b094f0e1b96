//! Small deterministic simulator of a farm.

pub mod farm;
#[cfg(test)]
mod farm_tests;

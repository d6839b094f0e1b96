//! Workflows that experiments run: the rank programs.

pub mod empty;
pub mod heavy;
pub mod mortal;
pub mod simulated;
pub mod steps;
pub mod values;

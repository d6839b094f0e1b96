//! Workflows that the experiments run: their rank programs and parameters.

pub mod empty;
pub mod heavy;
pub mod kill_run;
pub mod simulated;
pub mod steps;
pub mod values;

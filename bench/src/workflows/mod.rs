//! Rank programs of the workflows that the experiments run.

pub mod empty;
pub mod heavy;
pub mod kill_run;
pub mod simulated;
pub mod steps;
pub mod values;

//! Small deterministic simulators, against which predictions are checked.

pub mod farm;
pub mod pipeline;

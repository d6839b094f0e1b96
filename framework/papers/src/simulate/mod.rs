//! Small deterministic simulators that verify predictions of the planner.

pub mod loops;
pub mod pipeline;

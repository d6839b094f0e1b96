//! Experiments on workflows: what plans are worth, how long planning takes, and what becomes of them when tasks differ from what was
//! known; what a task costs that does nothing, what processes take of the memory that they are given, what is left of a run whose
//! ranks die, and how fast others run the same.

pub(super) mod deaths;
mod instances;
pub(super) mod memory;
pub(super) mod peers;
pub(super) mod quality;
pub(super) mod rate;
pub(super) mod replan;
pub(super) mod simgrid;
pub(super) mod time;

//! Experiments on workflows: quality of plans, planning time, replanning when tasks differ from their estimates,
//! overhead of an empty task, memory of processes, recovery from deaths of ranks, and comparison with other
//! frameworks.

pub(super) mod deaths;
mod instances;
pub(super) mod memory;
pub(super) mod peers;
pub(super) mod quality;
pub(super) mod rate;
pub(super) mod replan;
pub(super) mod simgrid;
pub(super) mod time;

//! Input of the planner.

use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::memory::MemoryModel;

/// Input of each step.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) graph: &'a Workflow,
    pub(super) cluster: &'a Cluster,
    pub(super) model: MemoryModel,
}

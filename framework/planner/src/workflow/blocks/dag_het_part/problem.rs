//! What is to be planned.

use crate::workflow::cluster::Cluster;
use crate::workflow::graph::Workflow;
use crate::workflow::memory::MemoryModel;

/// What each step knows.
#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) graph: &'a Workflow,
    pub(super) cluster: &'a Cluster,
    pub(super) model: MemoryModel,
}

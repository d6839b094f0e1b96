//! Input of the workflow planner DagHetPart.

use armature_planner::workflow::{Cluster, MemoryModel, Workflow};

#[derive(Clone, Copy)]
pub(super) struct Problem<'a> {
    pub(super) graph: &'a Workflow,
    pub(super) cluster: &'a Cluster,
    pub(super) model: MemoryModel,
}

//! Rules for the mappings that a planner may propose.

use std::ops::Range;

use super::dispatch::Dispatch;
use super::spec::{PipelineSpec, StageSpec};

/// Rules for the mappings of one call of the planner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) dispatch: Dispatch,
    /// True if several stages may be replicated together as one block.
    pub(super) replicate_groups: bool,
    /// True if a processor may host several blocks of stages.
    pub(super) share: bool,
}

impl Rules {
    /// Returns true if the rules permit these stages as one block on these hosts.
    pub(super) fn allow(&self, spec: &PipelineSpec, stages: &Range<usize>, hosts: &[usize]) -> bool {
        if stages.is_empty() || hosts.is_empty() || (hosts.len() > 1 && !self.may_replicate(spec, stages)) {
            return false;
        }
        spec.stages[stages.clone()].iter().all(|stage| stage.pinned.is_none_or(|pin| hosts == [pin]))
    }

    /// Returns true if the rules permit these stages as one block on several hosts.
    pub(super) fn may_replicate(&self, spec: &PipelineSpec, stages: &Range<usize>) -> bool {
        (stages.len() <= 1 || self.replicate_groups)
            && spec.stages[stages.clone()].iter().all(StageSpec::is_replicable)
    }
}

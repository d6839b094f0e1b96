//! Rules for the mappings that a planner may propose.

use std::ops::Range;

use super::dispatch::Dispatch;
use super::spec::{PipelineSpec, StageSpec};

#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) dispatch: Dispatch,
    pub(super) replicate_groups: bool,
    pub(super) share: bool,
}

impl Rules {
    pub(super) fn allow(&self, spec: &PipelineSpec, stages: &Range<usize>, hosts: &[usize]) -> bool {
        if stages.is_empty() || hosts.is_empty() || (hosts.len() > 1 && !self.may_replicate(spec, stages)) {
            return false;
        }
        spec.stages[stages.clone()].iter().all(|stage| stage.pinned.is_none_or(|pin| hosts == [pin]))
    }

    pub(super) fn may_replicate(&self, spec: &PipelineSpec, stages: &Range<usize>) -> bool {
        (stages.len() <= 1 || self.replicate_groups)
            && spec.stages[stages.clone()].iter().all(StageSpec::is_replicable)
    }
}

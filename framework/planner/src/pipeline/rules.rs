//! Which mappings a planner may propose.

use std::ops::Range;

use super::plan::Dispatch;
use super::spec::PipelineSpec;

/// The rules of one call of the planner.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) dispatch: Dispatch,
    /// May several stages be replicated as one block?
    pub(super) replicate_groups: bool,
    /// May a processor host several blocks?
    pub(super) share: bool,
}

impl Rules {
    /// May these stages be one block on these hosts?
    pub(super) fn allow(&self, spec: &PipelineSpec, stages: &Range<usize>, hosts: &[usize]) -> bool {
        let replicated = hosts.len() > 1;
        if stages.is_empty() || hosts.is_empty() || (replicated && stages.len() > 1 && !self.replicate_groups)
        {
            return false;
        }
        spec.stages[stages.clone()].iter().all(|stage| match stage.pinned {
            Some(pin) => hosts == [pin],
            None => !(stage.serial && replicated),
        })
    }
}

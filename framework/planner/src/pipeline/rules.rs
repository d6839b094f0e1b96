//! Which mappings a planner may propose.

use std::ops::Range;

use super::mapping::Block;
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

    /// May these blocks be a mapping?
    pub(super) fn allow_together(&self, spec: &PipelineSpec, blocks: &[Block]) -> bool {
        let shared =
            |one: &Block, other: &Block| one.hosts.iter().filter(|p| other.hosts.contains(p)).count();
        let go_together = |one: &Block, other: &Block| {
            let shared = shared(one, other);
            let in_part = shared < one.hosts.len() || shared < other.hosts.len();
            let both_replicated = one.is_replicated() && other.is_replicated();
            // What the model does not know: see the capacity of replicas that share some of their hosts.
            let unknown = self.dispatch == Dispatch::OnDemand && both_replicated && in_part;
            shared == 0 || (self.share && !unknown)
        };
        blocks.iter().all(|block| self.allow(spec, &block.stages, &block.hosts))
            && blocks
                .iter()
                .enumerate()
                .all(|(b, one)| blocks[..b].iter().all(|other| go_together(one, other)))
    }
}

//! Production time of the blocks of a mapping, also for processors that share cores.
//!
//! [`capacity`](super::capacity) divides the time of each processor among its blocks of stages. Processors that share cores are slowed down until
//! they need no more core time than there is ([`core_sharing`](super::core_sharing)).

use super::capacity::{Capacity, Hosted};
use super::core_sharing::CoreSharing;
use super::costs::Costs;
use crate::pipeline::dispatch::Dispatch;

/// Computes production times of mappings, and reuses its working memory between mappings.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct ProductionTime {
    capacity: Capacity,
    /// Model of the processors that share cores, if there are any.
    sharing: Option<Box<CoreSharing>>,
}

impl ProductionTime {
    /// Creates the model for the processors of `costs`, which may share cores.
    pub(in crate::pipeline) fn new(dispatch: Dispatch, costs: &Costs) -> Self {
        let groups = costs.shared_cores();
        let sharing = (!groups.is_empty()).then(|| Box::new(CoreSharing::new(groups, costs.processors())));
        ProductionTime { capacity: Capacity::new(dispatch, costs.processors()), sharing }
    }

    /// Returns true if processors share cores, so that blocks on different processors can slow each other down.
    pub(in crate::pipeline) fn shares_cores(&self) -> bool {
        self.sharing.is_some()
    }

    /// Returns the seconds per item of each block of the last mapping.
    pub(in crate::pipeline) fn block_times(&self) -> &[f64] {
        self.capacity.block_times()
    }

    /// Returns the time per item of a replicated block of stages that shares no processor and no core, from its `times` on each of its hosts.
    pub(in crate::pipeline) fn alone(&self, times: &[f64]) -> f64 {
        self.capacity.alone(times)
    }

    /// Returns the production time of blocks that may share processors and cores.
    pub(in crate::pipeline) fn together(&mut self, blocks: &[Hosted<'_>]) -> f64 {
        let time = self.capacity.together(blocks);
        match &mut self.sharing {
            None => time,
            Some(sharing) => sharing.slow_down(&mut self.capacity, blocks, time),
        }
    }

    /// Returns true if two replicated blocks have some of their processors in common, but not all.
    pub(in crate::pipeline) fn overlaps_in_part(&mut self, blocks: &[Hosted<'_>]) -> bool {
        self.capacity.overlaps_in_part(blocks)
    }

    /// Returns the fraction of the items that each host of block `b` of the last mapping receives at production time `pace`.
    pub(in crate::pipeline) fn shares(&self, b: usize, block: Hosted<'_>, pace: f64) -> Vec<f64> {
        let slower = |p: usize| self.sharing.as_ref().map_or(1.0, |sharing| sharing.slower(p));
        let times: Vec<f64> =
            block.hosts.iter().zip(block.times).map(|(&p, time)| time * slower(p)).collect();
        let mut shares = Vec::with_capacity(times.len());
        self.capacity.push_shares(b, Hosted { hosts: block.hosts, times: &times }, pace, &mut shares);
        shares
    }
}

//! How fast the blocks of a mapping go together where processors may share cores, too.
//!
//! [`capacity`](super::capacity) divides the time of each processor among its blocks; processors that share cores are slowed
//! down until they take no more than there is ([`core_sharing`](super::core_sharing)).

use super::capacity::{Capacity, Hosted};
use super::core_sharing::CoreSharing;
use super::costs::Costs;
use crate::pipeline::dispatch::Dispatch;

/// Computes production times; keeps its working memory from one mapping to the next.
#[derive(Clone, Debug)]
pub(in crate::pipeline) struct ProductionTime {
    capacity: Capacity,
    /// Where processors share cores.
    sharing: Option<Box<CoreSharing>>,
}

impl ProductionTime {
    /// For the processors of `costs`, which may share cores.
    pub(in crate::pipeline) fn new(dispatch: Dispatch, costs: &Costs) -> Self {
        let groups = costs.shared_cores();
        let sharing = (!groups.is_empty()).then(|| Box::new(CoreSharing::new(groups, costs.processors())));
        ProductionTime { capacity: Capacity::new(dispatch, costs.processors()), sharing }
    }

    /// Whether blocks are in each other's way also where they have different hosts.
    pub(in crate::pipeline) fn shares_cores(&self) -> bool {
        self.sharing.is_some()
    }

    /// Seconds an item that each block of the last mapping needs.
    pub(in crate::pipeline) fn block_times(&self) -> &[f64] {
        self.capacity.block_times()
    }

    /// One block with its hosts and their cores to itself.
    pub(in crate::pipeline) fn alone(&self, times: &[f64]) -> f64 {
        self.capacity.alone(times)
    }

    /// Production time of blocks that may share processors and cores.
    pub(in crate::pipeline) fn together(&mut self, blocks: &[Hosted<'_>]) -> f64 {
        let time = self.capacity.together(blocks);
        match &mut self.sharing {
            None => time,
            Some(sharing) => sharing.slow_down(&mut self.capacity, blocks, time),
        }
    }

    /// True if two replicated blocks share some of their processors, but not all.
    pub(in crate::pipeline) fn overlaps_in_part(&mut self, blocks: &[Hosted<'_>]) -> bool {
        self.capacity.overlaps_in_part(blocks)
    }

    /// The share of the items that each host of block `b` of the last mapping gets at pace `pace`.
    pub(in crate::pipeline) fn shares(&self, b: usize, block: Hosted<'_>, pace: f64) -> Vec<f64> {
        let slower = |p: usize| self.sharing.as_ref().map_or(1.0, |sharing| sharing.slower(p));
        let times: Vec<f64> =
            block.hosts.iter().zip(block.times).map(|(&p, time)| time * slower(p)).collect();
        let mut shares = Vec::with_capacity(times.len());
        self.capacity.push_shares(b, Hosted { hosts: block.hosts, times: &times }, pace, &mut shares);
        shares
    }
}

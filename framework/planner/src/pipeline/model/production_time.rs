//! Production time (seconds between two finished items) of a pipeline whose stages are mapped to processors, also if these share cores.

use super::capacity::{Capacity, Hosted};
use super::core_sharing::CoreSharing;
use super::costs::Costs;
use crate::pipeline::dispatch::Dispatch;

#[derive(Clone, Debug)]
pub(in crate::pipeline) struct ProductionTime {
    capacity: Capacity,
    sharing: Option<Box<CoreSharing>>,
}

impl ProductionTime {
    pub(in crate::pipeline) fn new(dispatch: Dispatch, costs: &Costs) -> Self {
        let groups = costs.shared_cores();
        let sharing = (!groups.is_empty()).then(|| Box::new(CoreSharing::new(groups, costs.processors())));
        ProductionTime { capacity: Capacity::new(dispatch, costs.processors()), sharing }
    }

    pub(in crate::pipeline) fn shares_cores(&self) -> bool {
        self.sharing.is_some()
    }

    pub(in crate::pipeline) fn block_times(&self) -> &[f64] {
        self.capacity.block_times()
    }

    pub(in crate::pipeline) fn alone(&self, times: &[f64]) -> f64 {
        self.capacity.alone(times)
    }

    pub(in crate::pipeline) fn together(&mut self, blocks: &[Hosted<'_>]) -> f64 {
        let time = self.capacity.together(blocks);
        match &mut self.sharing {
            None => time,
            Some(sharing) => sharing.slow_down(&mut self.capacity, blocks, time),
        }
    }

    pub(in crate::pipeline) fn overlaps_in_part(&mut self, blocks: &[Hosted<'_>]) -> bool {
        self.capacity.overlaps_in_part(blocks)
    }

    pub(in crate::pipeline) fn shares(&self, b: usize, block: Hosted<'_>, pace: f64) -> Vec<f64> {
        let slower = |p: usize| self.sharing.as_ref().map_or(1.0, |sharing| sharing.slower(p));
        let times: Vec<f64> =
            block.hosts.iter().zip(block.times).map(|(&p, time)| time * slower(p)).collect();
        let mut shares = Vec::with_capacity(times.len());
        self.capacity.push_shares(b, Hosted { hosts: block.hosts, times: &times }, pace, &mut shares);
        shares
    }
}

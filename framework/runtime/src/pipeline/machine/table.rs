//! The routing table: a mapping with the questions that a rank asks of it.

use std::ops::Range;

use armature_planner::pipeline::{Block, Dispatch, Mapping};
use serde::{Deserialize, Serialize};

/// How a batch that leaves over an edge finds its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// There is one receiver.
    Push(usize),
    /// Batch number n goes to receiver n modulo their number.
    RoundRobin,
    /// Receivers ask this rank, senders tell it what they have, and it brings the two together.
    Pull { broker: usize },
}

/// Which rank runs what, in one epoch of a run. Edge `e` leads into block `e`; the last edge leads to the sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) epoch: u32,
    pub(crate) mapping: Mapping,
    pub(crate) dispatch: Dispatch,
    /// Per block: whether it has a serial stage and must see items in order.
    pub(crate) in_order: Vec<bool>,
    /// Whether the sink must see items in order.
    pub(crate) sink_in_order: bool,
}

const ROOT: [usize; 1] = [0];

impl Table {
    pub(crate) fn new(
        epoch: u32,
        mapping: Mapping,
        dispatch: Dispatch,
        serial: &[bool],
        ordered: bool,
    ) -> Self {
        let in_order =
            mapping.blocks.iter().map(|b| ordered && b.stages.clone().any(|s| serial[s])).collect();
        Table { epoch, mapping, dispatch, in_order, sink_in_order: ordered }
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.mapping.blocks
    }

    /// The edge into the sink.
    pub(crate) fn last_edge(&self) -> usize {
        self.blocks().len()
    }

    pub(crate) fn stages(&self, block: usize) -> Range<usize> {
        self.blocks()[block].stages.clone()
    }

    pub(crate) fn receivers(&self, edge: usize) -> &[usize] {
        self.blocks().get(edge).map_or(&ROOT, |b| &b.hosts)
    }

    pub(crate) fn senders(&self, edge: usize) -> &[usize] {
        edge.checked_sub(1).map_or(&ROOT, |b| &self.blocks()[b].hosts)
    }

    /// Number of the codec of an edge's items: the number of stages before it.
    pub(crate) fn codec(&self, edge: usize) -> usize {
        self.blocks().get(edge).map_or(self.blocks().last().map_or(0, |b| b.stages.end), |b| b.stages.start)
    }

    pub(crate) fn must_order(&self, edge: usize) -> bool {
        self.in_order.get(edge).copied().unwrap_or(self.sink_in_order)
    }

    pub(crate) fn route(&self, edge: usize) -> Route {
        let receivers = self.receivers(edge);
        match (receivers, self.dispatch) {
            (&[only], _) => Route::Push(only),
            (_, Dispatch::RoundRobin) => Route::RoundRobin,
            (_, Dispatch::OnDemand) => Route::Pull {
                // A single sender knows what there is to give. Of several, none does: then a receiver keeps
                // the book, the lowest, so that all agree without a word.
                broker: match self.senders(edge) {
                    &[only] => only,
                    _ => receivers.iter().copied().min().unwrap_or(0),
                },
            },
        }
    }

    /// True when `rank` runs at least one stage.
    pub(crate) fn hosts(&self, rank: usize) -> bool {
        self.blocks().iter().any(|b| b.hosts.contains(&rank))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(blocks: Vec<(Range<usize>, Vec<usize>)>, dispatch: Dispatch) -> Table {
        let blocks = blocks.into_iter().map(|(stages, hosts)| Block { stages, hosts }).collect();
        Table::new(1, Mapping { blocks }, dispatch, &[true, false, false, true], true)
    }

    #[test]
    fn the_broker_is_the_only_sender_or_else_the_lowest_receiver() {
        let t = table(
            vec![(0..1, vec![2]), (1..2, vec![1, 3]), (2..3, vec![3, 0]), (3..4, vec![1])],
            Dispatch::OnDemand,
        );
        assert_eq!(t.route(0), Route::Push(2));
        assert_eq!(t.route(1), Route::Pull { broker: 2 });
        assert_eq!(t.route(2), Route::Pull { broker: 0 });
        assert_eq!(t.route(3), Route::Push(1));
        assert_eq!(t.route(4), Route::Push(0), "the sink is on rank 0");
    }

    #[test]
    fn serial_blocks_and_the_sink_take_items_in_order() {
        let t = table(vec![(0..2, vec![0]), (2..3, vec![1, 2]), (3..4, vec![0])], Dispatch::RoundRobin);
        assert_eq!((0..4).map(|e| t.must_order(e)).collect::<Vec<_>>(), [true, false, true, true]);
        assert_eq!((0..4).map(|e| t.codec(e)).collect::<Vec<_>>(), [0, 2, 3, 4]);
        assert_eq!(t.route(1), Route::RoundRobin);
    }
}

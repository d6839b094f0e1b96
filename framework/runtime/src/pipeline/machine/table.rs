//! Routing table of a pipeline: for each batch, the rank to which it is sent under a mapping.

use std::ops::Range;

use armature_planner::pipeline::{Block, Dispatch, Mapping};
use serde::{Deserialize, Serialize};

/// Rule by which a batch that leaves a group of stages is sent to a rank that runs the next group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Send the batch to the only rank that runs the next group of stages.
    Push(usize),
    /// Send batch number n to receiver n modulo the number of receivers (round robin).
    RoundRobin,
    /// Receivers request batches from the dispatcher, and senders offer batches to it; the dispatcher assigns a receiver to each batch.
    Pull { dispatcher: usize },
}

/// Mapping of stages to ranks, for the routing of batches. `epoch` counts the mappings of a run. Edge `e` is the connection to group `e` of
/// consecutive stages (block); the last edge leads to the sink.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Table {
    pub(crate) epoch: u32,
    #[serde(with = "super::mapping_runs")]
    pub(crate) mapping: Mapping,
    pub(crate) dispatch: Dispatch,
    pub(crate) serial: Vec<bool>,
    /// True if serial stages and the sink take items in the order of the source.
    pub(crate) ordered: bool,
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
        Table { epoch, mapping, dispatch, serial: serial.to_vec(), ordered }
    }

    pub(crate) fn none() -> Self {
        Table::new(0, Mapping::new(Vec::new()), Dispatch::OnDemand, &[], true)
    }

    pub(crate) fn blocks(&self) -> &[Block] {
        &self.mapping.blocks
    }

    pub(crate) fn stage_count(&self) -> usize {
        self.serial.len()
    }

    pub(crate) fn is_serial(&self, stage: usize) -> bool {
        self.serial.get(stage).copied().unwrap_or(false)
    }

    pub(crate) fn last_edge(&self) -> usize {
        self.blocks().len()
    }

    /// Returns the number of the edge (connection between groups of stages) over which a batch reaches `stage` or the sink.
    pub(crate) fn edge_of(&self, stage: usize) -> usize {
        self.blocks().iter().position(|b| b.stages.contains(&stage)).unwrap_or(self.last_edge())
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

    /// Returns the number of pairs of a group of stages and a rank that runs it.
    pub(crate) fn host_count(&self) -> usize {
        self.blocks().iter().map(|b| b.hosts.len()).sum()
    }

    pub(crate) fn owner(&self, stage: usize) -> usize {
        self.receivers(self.edge_of(stage)).first().copied().unwrap_or(0)
    }

    pub(crate) fn route(&self, edge: usize) -> Route {
        let receivers = self.receivers(edge);
        match (receivers, self.dispatch) {
            (&[only], _) => Route::Push(only),
            (_, Dispatch::RoundRobin) => Route::RoundRobin,
            _ => Route::Pull {
                // If only one rank sends batches over the edge (connection between groups of stages), it knows all offered batches and is the
                // dispatcher. With several senders, one of the receivers is the dispatcher.
                dispatcher: match self.senders(edge) {
                    &[only] => only,
                    _ => self.dispatcher_of(edge),
                },
            },
        }
    }

    /// Returns the rank that dispatches the batches of an edge (connection between groups of stages) with several senders. All ranks compute the same
    /// dispatcher, without communication: the lowest receiver that runs no earlier stage, or the lowest receiver if all of them run earlier stages.
    /// Rank 0 and ranks that run earlier stages are avoided because a rank's messages arrive in order: their decisions would arrive after the batches
    /// that they sent before.
    fn dispatcher_of(&self, edge: usize) -> usize {
        let receivers = || self.receivers(edge).iter().copied();
        let upstream = |rank: &usize| {
            *rank == 0 || self.blocks()[..edge.saturating_sub(1)].iter().any(|b| b.hosts.contains(rank))
        };
        receivers().filter(|rank| !upstream(rank)).min().or(receivers().min()).unwrap_or(0)
    }

    pub(crate) fn hosts(&self, rank: usize) -> bool {
        self.blocks().iter().any(|b| b.hosts.contains(&rank))
    }

    pub(crate) fn hosted(&self, rank: usize) -> Vec<usize> {
        self.blocks().iter().filter(|b| b.hosts.contains(&rank)).flat_map(|b| b.stages.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(blocks: Vec<(Range<usize>, Vec<usize>)>, dispatch: Dispatch) -> Table {
        let blocks = blocks.into_iter().map(|(stages, hosts)| Block::new(stages, hosts)).collect();
        Table::new(1, Mapping::new(blocks), dispatch, &[true, false, false, true], true)
    }

    #[test]
    fn dispatcher_is_the_single_sender_or_lowest_suitable_receiver() {
        let t = table(
            vec![(0..1, vec![2]), (1..2, vec![1, 3]), (2..3, vec![3, 0]), (3..4, vec![1])],
            Dispatch::OnDemand,
        );
        assert_eq!(t.route(0), Route::Push(2));
        assert_eq!(t.route(1), Route::Pull { dispatcher: 2 });
        assert_eq!(t.route(2), Route::Pull { dispatcher: 3 }, "rank 0 sends what it reads");
        assert_eq!(t.route(3), Route::Push(1));
        assert_eq!(t.route(4), Route::Push(0), "the sink is on rank 0");
        let all = |hosts: Vec<usize>| {
            let blocks = vec![(0..1, vec![2]), (1..2, vec![1, 3]), (2..4, hosts)];
            table(blocks, Dispatch::OnDemand).route(2)
        };
        assert_eq!(
            all(vec![2, 0, 4, 3]),
            Route::Pull { dispatcher: 3 },
            "nothing comes from rank 3 to rank 1"
        );
        assert_eq!(all(vec![2, 0]), Route::Pull { dispatcher: 0 }, "one of them must");
    }

    #[test]
    fn inner_stage_is_found_in_its_block() {
        let t = table(vec![(0..2, vec![0]), (2..3, vec![1, 2]), (3..4, vec![3])], Dispatch::RoundRobin);
        assert_eq!((0..=4).map(|s| t.edge_of(s)).collect::<Vec<_>>(), [0, 0, 1, 2, 3]);
        assert_eq!((t.owner(0), t.owner(3), t.owner(4)), (0, 3, 0));
        assert_eq!((t.hosted(0), t.hosted(2), t.hosted(9)), (vec![0, 1], vec![2], vec![]));
        assert_eq!(t.route(1), Route::RoundRobin);
    }
}

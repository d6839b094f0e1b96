//! How ranks learn at their start which checkpoint they go on from, and how rank 0 keeps account of those of a run.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Checkpoint;
use super::folder::Attempt;
use super::manifest::{Manifest, Saved};
use super::store::SnapshotStore;
use super::writer::SnapshotWriter;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Tagged, tags};
use crate::comm::waiting::{Limits, Waits};
use crate::error::Result;
use crate::wire;

tags! {
    "what a rank begins with";
    pub(super) enum Tag {
        /// Which checkpoint counts.
        StartingPoint = 2,
    }
}

/// Rank that sends the starting point to a rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// From rank 0.
    Star,
    /// From the rank before.
    Chain,
}

/// What a rank begins with.
#[derive(Debug)]
pub(crate) struct StartingPoint {
    /// Rank 0's store of checkpoints.
    pub(crate) store: Option<SnapshotStore>,
    /// The checkpoint that the job goes on from, if there is one.
    pub(crate) found: Option<Manifest>,
    /// Writes this rank's part of the next ones.
    pub(crate) writer: SnapshotWriter,
}

/// What ranks learn.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Resume {
    pub(super) attempt: Attempt,
    pub(super) found: Option<Manifest>,
}

/// Rank 0 looks for a checkpoint, and the ranks that have units, `0..ranks`, learn of it; all of these call it.
///
/// # Errors
/// As [`SnapshotStore::open`]; if the rank that is to send it is silent for longer than `limit`.
pub(crate) fn starting_point(
    endpoint: &mut Endpoint,
    (ranks, route): (usize, Route),
    checkpoint: &Checkpoint,
    name: &str,
    units: u64,
    limit: Duration,
) -> Result<StartingPoint> {
    let rank = endpoint.rank();
    let (store, resume) = if rank == 0 {
        let (store, found) = SnapshotStore::open(&checkpoint.dir, name, &checkpoint.fingerprint, units)?;
        let attempt = store.attempt().clone();
        (Some(store), Resume { attempt, found })
    } else {
        let from = if route == Route::Chain { rank - 1 } else { 0 };
        let waits = Waits { whom: from, limits: Limits { join: limit, peer: limit }, signs: &[] };
        // Other ranks may have started: rank 0, which sends signs of life to all, and the neighbour across the edge of a periodic grid.
        let is_it = |sender: usize, tag: u8| sender == from && tag == Tag::StartingPoint.byte();
        let why = || format!("for rank {from} to say which checkpoint counts");
        (None, wire::from_bytes::<Resume>(&endpoint.await_from(&waits, is_it, why)?.body)?)
    };
    let receivers = match route {
        Route::Chain => rank + 1..ranks.min(rank + 2),
        Route::Star if rank == 0 => 1..ranks,
        Route::Star => 0..0,
    };
    for to in receivers {
        endpoint.send(to, Tag::StartingPoint, &resume)?;
    }
    let Resume { attempt, found } = resume;
    let writer = SnapshotWriter::new(&checkpoint.dir, attempt, rank, endpoint.capabilities().threads);
    Ok(StartingPoint { store, found, writer })
}

/// Rank 0's part in a run: when checkpoints are due, and who has written.
#[derive(Debug)]
pub(crate) struct SnapshotCoordinator {
    store: SnapshotStore,
    every: Duration,
    /// When the last checkpoint began.
    last: Duration,
    ranks: usize,
    /// Passes that were done before this run.
    before: u64,
}

impl SnapshotCoordinator {
    /// The run begins `now`, with `ranks` that have units, after `before` passes in earlier ones.
    pub(crate) fn new(
        store: SnapshotStore,
        checkpoint: &Checkpoint,
        ranks: usize,
        before: u64,
        now: Duration,
    ) -> Self {
        SnapshotCoordinator { store, every: checkpoint.every, last: now, ranks, before }
    }

    /// Whether units are to be written as they are after `pass` passes of this run, which none has gone beyond yet; then how
    /// many passes these are, those of earlier runs included.
    pub(crate) fn is_due(&mut self, pass: u64, now: Duration) -> Option<u64> {
        if now.saturating_sub(self.last) < self.every || self.store.is_open() {
            return None;
        }
        self.last = now;
        let pass = self.before + pass;
        self.store.begin(pass, self.ranks).then_some(pass)
    }

    /// A rank has written its part of a checkpoint.
    ///
    /// # Errors
    /// As [`SnapshotStore::add`].
    pub(crate) fn on_saved(&mut self, rank: usize, pass: u64, saved: Vec<Saved>) -> Result<()> {
        if self.store.add(rank, pass, saved)? {
            log::debug!("the checkpoint after {pass} passes is whole");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::local::{LocalTransport, World};
    use crate::comm::message::Control;

    /// On a ring, rank 0 sends its border to the last rank, which learns of the checkpoint from another rank.
    #[test]
    fn a_rank_that_has_started_may_send_before_the_starting_point_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let checkpoint = Checkpoint::new(dir.path(), "torus");
        let world = World::new(3);
        let mut ranks = [0, 1, 2].map(|rank| {
            Endpoint::new(Box::new(LocalTransport::open(world.clone(), rank)), Duration::from_millis(1))
        });
        let start = |endpoint: &mut Endpoint| {
            let limit = Duration::from_secs(5);
            starting_point(endpoint, (3, Route::Chain), &checkpoint, "torus", 9, limit).unwrap()
        };
        let [zero, one, two] = &mut ranks;
        assert!(start(zero).store.is_some());
        zero.send(2, Control::Echo, &7u32).unwrap();
        start(one);
        assert!(start(two).found.is_none());
        let early = two.poll().unwrap().expect("it stays where it is");
        assert!(early.from == 0 && early.is(Control::Echo));
    }
}

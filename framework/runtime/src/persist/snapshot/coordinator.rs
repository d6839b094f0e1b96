//! Checkpoints of a run: rank 0 tells the other ranks from which checkpoint the job resumes, and schedules new checkpoints.

use std::path::Path;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Checkpoint;
use super::folder::Attempt;
use super::manifest::{Manifest, Written};
use super::schedule::Schedule;
use super::store::SnapshotStore;
use super::writer::SnapshotWriter;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{Tagged, messages};
use crate::comm::waiting::{Limits, Waits};
use crate::error::{Error, ErrorKind, Result};
use crate::session::Config;

messages! {
    "what a rank begins with";
    pub(super) enum Tag {
        /// Description of the checkpoint from which the job resumes.
        StartingPoint = 2,
    }
}

/// Route of rank 0's message about the checkpoint from which the job resumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Route {
    /// Rank 0 sends the message about the checkpoint to every other rank.
    Star,
    /// Each rank forwards the message about the checkpoint to the next rank.
    Chain,
}

/// Checkpoint from which a run resumes, and this rank's writer of later checkpoints.
#[derive(Debug)]
pub(crate) struct StartingPoint {
    pub(crate) store: Option<SnapshotStore>,
    pub(crate) found: Option<Manifest>,
    pub(crate) writer: SnapshotWriter,
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Resume {
    pub(super) attempt: Attempt,
    pub(super) found: Option<Manifest>,
}

/// Looks for a checkpoint on rank 0 and sends its description to the ranks `0..ranks`, which take part in the loop; all these ranks call this
/// function.
///
/// # Errors
/// The errors of [`SnapshotStore::open`]; [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the rank that sends the description is silent for
/// longer than `limit`.
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
        endpoint.claim(&checkpoint.dir)?;
        let check = |manifest: &Manifest| manifest.check_files(&checkpoint.dir);
        let (store, found) =
            SnapshotStore::open(&checkpoint.dir, name, checkpoint.identity.bytes()?, units, check)?;
        let (attempt, found) = (store.attempt().clone(), found.map(|(manifest, ())| manifest));
        (Some(store), Resume { attempt, found })
    } else {
        let from = if route == Route::Chain { rank - 1 } else { 0 };
        let waits = Waits { rank: from, limits: Limits { join: limit, peer: limit }, heartbeats_to: &[] };
        // Only the message about the checkpoint is received here. Other ranks may have started already and send other messages: heartbeats from rank
        // 0, and boundary rows from the neighbour across the edge of a periodic grid.
        let is_it = |sender: usize, tag: u8| sender == from && tag == Tag::StartingPoint.byte();
        let why = || format!("for rank {from} to report the checkpoint from which the loop resumes");
        (None, endpoint.await_from(&waits, is_it, why)?.expect(Tag::StartingPoint)?.value()?)
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

/// Rank 0's schedule of the checkpoints of a run. It also records which ranks have written their part of the current checkpoint.
#[derive(Debug)]
pub(crate) struct SnapshotCoordinator {
    store: SnapshotStore,
    schedule: Schedule,
    /// Time at which the current or the last checkpoint was started; the start of the run before the first checkpoint.
    started: Duration,
    ranks: usize,
    /// Number of passes of the loop that earlier starts of the job have completed.
    before: u64,
}

impl SnapshotCoordinator {
    pub(crate) fn new(
        store: SnapshotStore,
        (checkpoint, config): (&Checkpoint, &Config),
        ranks: usize,
        before: u64,
        now: Duration,
    ) -> Self {
        let schedule = Schedule::new(checkpoint.every, config, now);
        SnapshotCoordinator { store, schedule, started: now, ranks, before }
    }

    pub(crate) fn is_due(&self, now: Duration) -> bool {
        self.schedule.is_due(now) && !self.is_open()
    }

    /// Starts a checkpoint after `pass` passes of this run, if a checkpoint is due, and returns the total number of passes, including those of
    /// earlier runs. No rank may have started a later pass.
    pub(crate) fn begin_if_due(&mut self, pass: u64, now: Duration) -> Option<u64> {
        if !self.is_due(now) {
            return None;
        }
        self.started = now;
        self.schedule.started(now);
        self.begin(pass)
    }

    /// Starts a checkpoint after `pass` passes of this run, and returns the total number of passes; `None` if there is already a checkpoint with that
    /// number. No other checkpoint may be [open](SnapshotCoordinator::is_open).
    pub(crate) fn begin(&mut self, pass: u64) -> Option<u64> {
        let pass = self.before + pass;
        self.store.begin(pass, self.ranks).then_some(pass)
    }

    pub(crate) fn is_open(&self) -> bool {
        self.store.is_open()
    }

    /// Returns the number of passes of the loop before the newest complete checkpoint, and the directory of the checkpoints; `None` if there is no
    /// checkpoint.
    pub(crate) fn kept(&self) -> Option<(u64, &Path)> {
        self.store.kept()
    }

    /// Records at time `now` that a rank has written its part of the current checkpoint, or why it could not. A checkpoint that cannot be written is
    /// abandoned with a warning, and the loop continues: the checkpoint before it stays valid.
    ///
    /// # Errors
    /// If the units (rows or indices) that the ranks have written do not cover each unit of the loop exactly once.
    pub(crate) fn on_saved(&mut self, rank: usize, pass: u64, written: Written, now: Duration) -> Result<()> {
        let written = written.map_err(|why| Error::new(ErrorKind::Io, why).at_rank(rank));
        match self.store.add(rank, pass, written) {
            Ok(true) => {
                // The duration of writing is an upper bound of the cost of a checkpoint, because ranks compute while their data are written.
                self.schedule.completed(now.saturating_sub(self.started));
                let period = self.schedule.period();
                log::debug!(
                    "the checkpoint after {pass} passes is complete; the next one follows after {period:?}"
                );
            }
            Ok(false) => {}
            Err(error) if error.kind() == ErrorKind::Io => {
                let valid = match self.kept() {
                    Some((pass, _)) => format!("the checkpoint after {pass} passes stays valid"),
                    None => "there is no checkpoint yet".into(),
                };
                log::warn!("{error}; the loop continues, and {valid}");
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::comm::local::{LocalTransport, World};
    use crate::comm::message::Control;

    /// In a periodic grid, rank 0 may send its boundary row to the last rank before the rank in between has forwarded the message about the
    /// checkpoint. The last rank must keep the row for later.
    #[test]
    fn early_messages_wait_for_the_starting_point() {
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

//! Checkpoints: files with the units of a loop (rows or indices) after a pass over all units, from which a restarted job resumes.
//!
//! Every rank writes its own units, on a separate thread, and reports to rank 0. When all ranks have reported, rank 0 replaces the manifest, which
//! names the newest checkpoint. The checkpoint before it is kept, in case the newest one is damaged. The units can be loaded by any number of ranks.
//! All ranks must have access to the directory.
//!
//! `README.md` in this directory describes the files, the states and the invariants.

mod coordinator;
mod folder;
#[cfg(test)]
mod golden_tests;
mod load;
mod manifest;
mod schedule;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use coordinator::{Route, SnapshotCoordinator, StartingPoint, starting_point};
pub(crate) use load::{LoadedPiece, load, load_rank_data};
#[cfg(test)]
pub(crate) use manifest::Saved;
pub(crate) use manifest::{Manifest, Written};
pub(crate) use schedule::Schedule;
pub(crate) use store::SnapshotStore;
pub(crate) use writer::{CheckpointPiece, SnapshotWriter};

use serde::Serialize;

use super::identity::RunIdentity;
use crate::error::{Error, ErrorKind};

/// Settings of the checkpoints of a loop or the snapshots of a pipeline: their directory, the time between them, and the identity of the
/// run (its parameters, seeds and input).
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub(crate) dir: PathBuf,
    /// Fixed time between the starts of two checkpoints; `None` if it follows from the cost of a checkpoint.
    pub(crate) every: Option<Duration>,
    pub(crate) identity: RunIdentity,
}

impl Checkpoint {
    /// Creates the settings of a job that writes checkpoints to this directory. All ranks must have access to the directory, and no other
    /// job may use it. `identity` names everything on which the result depends besides the loop or pipeline itself: parameters, seeds, the
    /// input or a checksum of it.
    ///
    /// The first checkpoint is written after ten seconds. Then the period follows from the measured cost of a checkpoint,
    /// [`Config::mean_time_between_failures`](crate::Config::mean_time_between_failures) and
    /// [`Config::checkpoint_overhead`](crate::Config::checkpoint_overhead).
    pub fn new(dir: impl Into<PathBuf>, identity: &(impl Serialize + ?Sized)) -> Self {
        Checkpoint { dir: dir.into(), every: None, identity: RunIdentity::of(identity) }
    }

    /// Sets a fixed time between the starts of two checkpoints. No checkpoint starts while another checkpoint is being written.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = Some(every);
        self
    }
}

fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing} {} of a checkpoint: {error}", path.display()))
}

fn refused(dir: &Path, why: &str) -> Error {
    config_error(dir, &format!("{why}. Remove the directory, or name another"))
}

fn config_error(dir: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the checkpoint in {}: {what}", dir.display()))
}

//! Checkpoints: files with the units at the end of a pass, from which a restarted job resumes.
//!
//! Every rank writes its own units, on a separate thread, and reports to rank 0. When all ranks have reported, rank 0 replaces the manifest, and
//! thereby the previous checkpoint. Therefore there is always either one complete checkpoint or none. The units can be loaded by any number of ranks.
//! All ranks must have access to the directory.
//!
//! ```text
//! DIR/lock                               locked by rank 0 of the job that uses the directory; names the process of rank 0
//! DIR/manifest                           one line of JSON: owner, pass, position and checksum of every piece; on the next line
//!                                        the checksum of the first line
//! DIR/pass-120-0123456789abcdef/rank-3   data of rank 3's units, piece after piece; the name contains the pass and the
//!                                        identity of the start of the job
//! ```
//!
//! A piece without units holds the data that a rank stores in addition to its units.
//!
//! A job that dies may leave a directory without a manifest, and an incomplete manifest (`.manifest-….tmp`). The next job that holds the
//! lock removes them.

mod coordinator;
mod folder;
#[cfg(test)]
mod golden_tests;
mod load;
mod manifest;
mod store;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::time::Duration;

pub(crate) use coordinator::{Route, SnapshotCoordinator, StartingPoint, starting_point};
pub(crate) use load::{LoadedPiece, load, load_rank_data};
pub(crate) use manifest::{Manifest, Saved};
pub(crate) use writer::{Piece, SnapshotWriter};

use serde::Serialize;

use super::identity::RunIdentity;
use crate::error::{Error, ErrorKind};

/// Directory and period of checkpoints.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub(crate) dir: PathBuf,
    pub(crate) every: Duration,
    pub(crate) identity: RunIdentity,
}

impl Checkpoint {
    /// Creates the settings of a loop that writes a checkpoint to this directory every minute. All ranks must have access to the directory,
    /// and no other job may use it. `identity` names everything that the units depend on besides the name of their owner and their number:
    /// parameters, seeds, the input or a checksum of it.
    pub fn new(dir: impl Into<PathBuf>, identity: &(impl Serialize + ?Sized)) -> Self {
        Checkpoint { dir: dir.into(), every: Duration::from_secs(60), identity: RunIdentity::of(identity) }
    }

    /// Sets the time after the start of a checkpoint at which the next one starts. No checkpoint starts while another one is being written.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }
}

/// Creates an error of the file system.
fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing} {} of a checkpoint: {error}", path.display()))
}

/// Creates an error for a checkpoint that must not be used.
fn refused(dir: &Path, why: &str) -> Error {
    config_error(dir, &format!("{why}. Remove the directory, or name another"))
}

fn config_error(dir: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the checkpoint in {}: {what}", dir.display()))
}

//! Checkpoints: units as they are at the end of a pass, in files, from which a job that is started again goes on.
//!
//! Every rank writes its own units, on a thread beside the one that computes, and reports that to rank 0; when all have, rank 0
//! replaces the manifest, and with that the checkpoint before. So there is always one whole checkpoint, or none. What is
//! read again may be shared out to any number of ranks. The directory must be one that all ranks see.
//!
//! ```text
//! DIR/lock                               locked by rank 0 of the job that has the directory; says which process that is
//! DIR/manifest                           JSON on one line: whose it is, the pass, every piece's place and checksum; its own
//!                                        checksum on the next
//! DIR/pass-120-0123456789abcdef/rank-3   the data of rank 3's units, piece after piece; behind the pass, the start of the job
//! ```
//!
//! A piece of no units is what a rank keeps beside its units.
//!
//! A job that dies may leave a directory without a manifest, and a manifest that was not finished (`.manifest-….tmp`). The next
//! job that has the lock removes them.

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
pub(crate) use load::{LoadedPiece, load, load_beside};
pub(crate) use manifest::{Manifest, Saved};
pub(crate) use writer::{Piece, SnapshotWriter};

use crate::error::{Error, ErrorKind};

/// Where units are kept, and how often.
#[derive(Clone, Debug)]
pub struct Checkpoint {
    pub(crate) dir: PathBuf,
    pub(crate) every: Duration,
    pub(crate) fingerprint: Vec<u8>,
}

impl Checkpoint {
    /// In this directory, which all ranks see and no other job uses, every minute. `fingerprint` is whatever the units depend on beside their
    /// owner's name and their number: parameters, seeds, the input or a checksum of it.
    pub fn new(dir: impl Into<PathBuf>, fingerprint: impl Into<Vec<u8>>) -> Self {
        Checkpoint { dir: dir.into(), every: Duration::from_secs(60), fingerprint: fingerprint.into() }
    }

    /// A checkpoint begins when this time has passed since the one before began; none while one is being written.
    pub fn every(mut self, every: Duration) -> Self {
        self.every = every;
        self
    }
}

/// An error of the file system.
fn io_error(doing: &str, path: &Path, error: &std::io::Error) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {doing} {} of a checkpoint: {error}", path.display()))
}

/// A checkpoint that is not to be used.
fn refused(dir: &Path, why: &str) -> Error {
    config_error(dir, &format!("{why}. Remove the directory, or name another"))
}

fn config_error(dir: &Path, what: &str) -> Error {
    Error::new(ErrorKind::Config, format!("the checkpoint in {}: {what}", dir.display()))
}

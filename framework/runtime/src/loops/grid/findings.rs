//! Findings: results that user code has gathered from a rank's rows of a table. Checkpoints contain them, because ranks do not keep all columns of a
//! table.

use std::sync::{Arc, Mutex, PoisonError};

use super::neighbours::Position;
use crate::error::{BoxError, Result};
use crate::persist::snapshot::{Checkpoint, CheckpointPiece, Manifest, load_rank_data};

/// Function that informs user code of a checkpoint from which the job resumes: it gets the number of sweeps done, and results of user code
/// (findings) that ranks had saved.
pub(super) trait Resume<U>: FnOnce(&mut U, u64, Vec<Vec<u8>>) -> Result<(), BoxError> {}

impl<U, F: FnOnce(&mut U, u64, Vec<Vec<u8>>) -> Result<(), BoxError>> Resume<U> for F {}

/// Does nothing, for a loop that has no results besides its rows.
pub(super) fn nothing_found<U>(_: &mut U, _: u64, _: Vec<Vec<u8>>) -> Result<(), BoxError> {
    Ok(())
}

/// Findings of a rank: results of user code up to the end of a sweep. The thread that runs user code stores them, and the thread that communicates
/// writes them to checkpoints.
#[derive(Clone, Debug)]
pub(super) struct Findings {
    /// Number of columns of the table. It is saved with the results and compared when the job resumes, because the saved rows contain
    /// only one panel (some columns) of the table.
    columns: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Findings {
    pub(super) fn new(columns: usize) -> Self {
        Findings { columns: columns as u64, bytes: Arc::default() }
    }

    pub(super) fn put(&self, bytes: Vec<u8>) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    pub(super) fn piece(&self) -> CheckpointPiece {
        let found = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        (0, 0, [&self.columns.to_le_bytes()[..], &found].concat())
    }

    /// Loads the results of user code that the ranks of the earlier job have saved. They are distributed over the ranks of this job; each is
    /// returned on one rank only.
    ///
    /// # Errors
    /// If the checkpoint is of a table with another number of columns, or of another kind of loop.
    pub(super) fn load(
        &self,
        checkpoint: &Checkpoint,
        manifest: &Manifest,
        Position { rank, chain }: Position,
    ) -> Result<Vec<Vec<u8>>> {
        let found = load_rank_data(&checkpoint.dir, manifest, |earlier| earlier % chain == rank)?;
        found.into_iter().map(|piece| self.open(&piece).map_err(|why| checkpoint.refused(&why))).collect()
    }

    fn open(&self, piece: &[u8]) -> Result<Vec<u8>, String> {
        let expected = self.columns;
        match piece.split_first_chunk() {
            Some((columns, found)) if u64::from_le_bytes(*columns) == expected => Ok(found.to_vec()),
            Some((columns, _)) => {
                let columns = u64::from_le_bytes(*columns);
                Err(format!("it is of a table with {columns} columns, expected {expected}"))
            }
            None => Err(format!("it is not of a table, expected a table with {expected} columns")),
        }
    }
}

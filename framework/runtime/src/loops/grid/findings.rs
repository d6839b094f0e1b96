//! What user code has found in a rank's rows, for the checkpoints of loops whose result is that.

use std::sync::{Arc, Mutex, PoisonError};

use super::neighbours::Position;
use crate::error::{BoxError, Result};
use crate::persist::snapshot::{Checkpoint, Manifest, Piece, load_beside};

/// What user code makes of a checkpoint: of how many sweeps it is, and what ranks had found by then.
pub(super) trait Resume<U>: FnOnce(&mut U, u64, Vec<Vec<u8>>) -> Result<(), BoxError> {}

impl<U, F: FnOnce(&mut U, u64, Vec<Vec<u8>>) -> Result<(), BoxError>> Resume<U> for F {}

/// For loops that have nothing but rows.
pub(super) fn nothing_found<U>(_: &mut U, _: u64, _: Vec<Vec<u8>>) -> Result<(), BoxError> {
    Ok(())
}

/// What was found by the end of a sweep: the thread that runs user code puts it down, the one that communicates writes it.
#[derive(Clone, Debug)]
pub(super) struct Findings {
    /// Columns of the table. Its rows do not show them, as a rank keeps no more than a panel.
    columns: u64,
    bytes: Arc<Mutex<Vec<u8>>>,
}

impl Findings {
    /// Of a table with this number of columns.
    pub(super) fn new(columns: usize) -> Self {
        Findings { columns: columns as u64, bytes: Arc::default() }
    }

    /// This has been found until now.
    pub(super) fn put(&self, bytes: Vec<u8>) {
        *self.bytes.lock().unwrap_or_else(PoisonError::into_inner) = bytes;
    }

    /// As a piece of a checkpoint, which has no rows.
    pub(super) fn piece(&self) -> Piece {
        let found = self.bytes.lock().unwrap_or_else(PoisonError::into_inner);
        (0, 0, [&self.columns.to_le_bytes()[..], &found].concat())
    }

    /// What ranks of the job before had found, each of them taken by one rank of this job.
    ///
    /// # Errors
    /// If the checkpoint is of a table with another number of columns, or of another kind of loop.
    pub(super) fn load(
        &self,
        checkpoint: &Checkpoint,
        manifest: &Manifest,
        Position { rank, chain }: Position,
    ) -> Result<Vec<Vec<u8>>> {
        let found = load_beside(&checkpoint.dir, manifest, |earlier| earlier % chain == rank)?;
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
            None => Err(format!("it is of no table, expected one with {expected} columns")),
        }
    }
}

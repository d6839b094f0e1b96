//! A rank's side of checkpoints: its rows are written beside the computing.

use std::time::Duration;

use super::findings::Findings;
use super::messages::ToCoordinator;
use crate::error::Result;
use crate::persist::snapshot::{Piece, SnapshotCoordinator, SnapshotWriter};

/// What a rank begins with, beside its rows; nothing without checkpoints.
#[derive(Default)]
pub(super) struct Resumed {
    /// Rank 0's records.
    pub(super) snapshots: Option<SnapshotCoordinator>,
    /// Writes this rank's part of the next checkpoints.
    pub(super) writer: Option<SnapshotWriter>,
    /// Sweeps that an earlier job has done.
    pub(super) before: u64,
    /// What ranks of that job had found, as far as this one is to take it over.
    pub(super) found: Vec<Vec<u8>>,
}

/// What has been written at the end of a run.
#[derive(Debug)]
pub(super) enum LastSaved {
    /// This; there may be more.
    Now(ToCoordinator),
    /// Something is being written.
    Later,
    /// All was reported.
    Nothing,
}

/// Writes checkpoints of a rank's rows.
pub(super) struct CheckpointWriter {
    writer: SnapshotWriter,
    /// Passes that were done before this run.
    before: u64,
    /// What is written beside the rows.
    findings: Option<Findings>,
}

impl CheckpointWriter {
    /// For a run before which `before` passes were done.
    pub(super) fn new(writer: SnapshotWriter, before: u64, findings: Option<Findings>) -> Self {
        CheckpointWriter { writer, before, findings }
    }

    /// Begins to write the rows as they are before this sweep of the run.
    ///
    /// # Errors
    /// If the writer's thread cannot be started.
    pub(super) fn save(&mut self, sweep: u64, mut rows: Vec<Piece>) -> Result<()> {
        rows.extend(self.findings.as_ref().map(Findings::piece));
        self.writer.save(self.before + sweep, rows)
    }

    /// What rank 0 is to know, if something has been written since the last look.
    ///
    /// # Errors
    /// If it could not be written.
    pub(super) fn saved(&mut self) -> Result<Option<ToCoordinator>> {
        Ok(self.writer.poll()?.map(|(pass, saved)| ToCoordinator::Saved(pass, saved)))
    }

    /// The same at the end, when the rank has `waited` so long for the disk.
    ///
    /// # Errors
    /// If it could not be written, or [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the disk takes longer than `limit`.
    pub(super) fn last(&mut self, waited: Duration, limit: Duration) -> Result<LastSaved> {
        if !self.writer.is_busy() {
            return Ok(LastSaved::Nothing);
        }
        match self.saved()? {
            Some(saved) => Ok(LastSaved::Now(saved)),
            None if waited > limit => Err(self.writer.give_up(limit)),
            None => Ok(LastSaved::Later),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_disk_that_does_not_answer_is_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, _disk) = SnapshotWriter::stuck(dir.path(), 0);
        let mut checkpoints = CheckpointWriter::new(writer, 3, None);
        checkpoints.save(2, vec![(0, 1, vec![1; 8])]).unwrap();
        let (limit, soon) = (Duration::from_millis(50), Duration::from_millis(20));
        assert!(matches!(checkpoints.last(soon, limit), Ok(LastSaved::Later)));
        let error = checkpoints.last(Duration::from_millis(51), limit).unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(0)));
        assert!(error.to_string().contains(&*dir.path().to_string_lossy()), "{error}");
        assert!(matches!(checkpoints.last(limit, limit), Ok(LastSaved::Nothing)), "it was given up");
    }
}

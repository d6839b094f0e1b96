//! Checkpoints of a rank in a loop over a grid. Rows are written while the rank computes.

use std::time::Duration;

use super::findings::Findings;
use super::messages::ToCoordinator;
use crate::error::Result;
use crate::persist::snapshot::{CheckpointPiece, SnapshotCoordinator, SnapshotWriter};

/// Checkpoint data with which a rank begins a run, in addition to its rows: progress and results from an
/// earlier job, and the writer of new checkpoints.
#[derive(Default)]
pub(super) struct Resumed {
    /// Schedule of the checkpoints, and records of their written parts; set on rank 0 only.
    pub(super) snapshots: Option<SnapshotCoordinator>,
    pub(super) writer: Option<SnapshotWriter>,
    pub(super) before: u64,
    /// Findings (results of user code in a table) of ranks of the earlier job, which this rank takes over.
    pub(super) found: Vec<Vec<u8>>,
}

/// State of a rank's checkpoint writer when the rank has done its last sweep.
#[derive(Debug)]
pub(super) enum LastSaved {
    /// A part of the rank's rows was written to a checkpoint. This message about it has to be sent to the coordinator; more may
    /// follow.
    Now(ToCoordinator),
    Later,
    /// All rows that belong to checkpoints have been written, and the coordinator has been notified.
    Nothing,
}

pub(super) struct CheckpointWriter {
    writer: SnapshotWriter,
    /// Number of passes that earlier runs or an earlier job did before this run.
    before: u64,
    findings: Option<Findings>,
}

impl CheckpointWriter {
    /// Creates the writer of checkpoints for a run before which `before` passes were done.
    pub(super) fn new(writer: SnapshotWriter, before: u64, findings: Option<Findings>) -> Self {
        CheckpointWriter { writer, before, findings }
    }

    /// Begins to write a checkpoint with the rows as they are before sweep `sweep` of the run.
    ///
    /// # Errors
    /// If the writer's thread cannot be started.
    pub(super) fn save(&mut self, sweep: u64, mut rows: Vec<CheckpointPiece>) -> Result<()> {
        rows.extend(self.findings.as_ref().map(Findings::piece));
        self.writer.save(self.before + sweep, rows)
    }

    /// Returns the message to rank 0 about pieces of a checkpoint that were written since the last poll, or could not be written.
    pub(super) fn saved(&mut self) -> Option<ToCoordinator> {
        let (pass, written) = self.writer.poll()?;
        Some(ToCoordinator::Saved(pass, written.map_err(|error| error.message().to_string())))
    }

    /// Polls the checkpoint writer after the last sweep of a run. The rank has waited for the disk since `waited`.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the disk takes longer than `limit`.
    pub(super) fn last(&mut self, waited: Duration, limit: Duration) -> Result<LastSaved> {
        if !self.writer.is_busy() {
            return Ok(LastSaved::Nothing);
        }
        match self.saved() {
            Some(saved) => Ok(LastSaved::Now(saved)),
            None if waited > limit => Err(self.writer.timed_out(limit)),
            None => Ok(LastSaved::Later),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn unresponsive_disk_times_out() {
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

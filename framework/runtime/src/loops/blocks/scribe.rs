//! A rank's side of checkpoints: its rows are written beside the computing.

use std::time::Duration;

use super::driver::Told;
use crate::error::Result;
use crate::loops::checkpoint::{Piece, Writer};

/// Between two looks at what the writer has done, when there is nothing else to do.
const LOOK: Duration = Duration::from_millis(1);

/// Writes checkpoints of a rank's rows.
pub(super) struct Scribe {
    writer: Writer,
    /// Passes that were done before this run.
    before: u64,
}

impl Scribe {
    /// For a run before which so many passes were done.
    pub(super) fn new(writer: Writer, before: u64) -> Self {
        Scribe { writer, before }
    }

    /// Begins to write the rows as they are before this sweep of the run.
    ///
    /// # Errors
    /// If the writer's thread cannot be started.
    pub(super) fn save(&mut self, sweep: u64, rows: Vec<Piece>) -> Result<()> {
        self.writer.save(self.before + sweep, rows)
    }

    /// What rank 0 is to be told, if something has been written since the last look.
    ///
    /// # Errors
    /// If it could not be written.
    pub(super) fn told(&mut self) -> Result<Option<Told>> {
        Ok(self.writer.poll()?.map(|(pass, saved)| Told::Saved(pass, saved)))
    }

    /// As [`told`](Scribe::told), but waits for what is being written; `None` once there is nothing.
    ///
    /// # Errors
    /// [`ErrorKind::Timeout`](crate::ErrorKind::Timeout) if the disk takes longer than `limit`.
    pub(super) fn last(&mut self, limit: Duration) -> Result<Option<Told>> {
        let mut waited = Duration::ZERO;
        while self.writer.is_busy() {
            if let Some(told) = self.told()? {
                return Ok(Some(told));
            }
            if waited > limit {
                return Err(self.writer.give_up(limit));
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn a_disk_that_does_not_answer_is_not_waited_for_without_end() {
        let dir = tempfile::tempdir().unwrap();
        let (writer, _disk) = Writer::stuck(dir.path(), 0);
        let mut scribe = Scribe::new(writer, 3);
        scribe.save(2, vec![(0, 1, vec![1; 8])]).unwrap();
        let error = scribe.last(Duration::from_millis(50)).unwrap_err();
        assert_eq!((error.kind(), error.rank()), (ErrorKind::Timeout, Some(0)));
        assert!(error.to_string().contains(&*dir.path().to_string_lossy()), "{error}");
        assert!(scribe.last(Duration::ZERO).unwrap().is_none(), "it was given up");
    }
}

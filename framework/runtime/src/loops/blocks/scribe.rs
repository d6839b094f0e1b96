//! A rank's side of checkpoints: its rows are written beside the computing.

use std::time::Duration;

use super::driver::Told;
use crate::error::{Error, ErrorKind, Result};
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
    /// [`ErrorKind::Timeout`] if the disk takes longer than `limit`.
    pub(super) fn last(&mut self, limit: Duration) -> Result<Option<Told>> {
        let mut waited = Duration::ZERO;
        while self.writer.is_busy() {
            if let Some(told) = self.told()? {
                return Ok(Some(told));
            }
            if waited > limit {
                self.writer.give_up();
                let text = format!("waited {:.0} s for the disk to take a checkpoint", limit.as_secs_f64());
                return Err(Error::new(ErrorKind::Timeout, text));
            }
            std::thread::sleep(LOOK);
            waited += LOOK;
        }
        Ok(None)
    }
}

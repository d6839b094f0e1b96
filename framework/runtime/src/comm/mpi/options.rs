//! Sizes and limits of the MPI transport.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// What can be chosen. All ranks must use the same `slot_bytes` and `split`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MpiOptions {
    /// Messages without parts up to this many bytes travel as one MPI message; receives of this size are
    /// posted ahead.
    pub(crate) slot_bytes: usize,
    /// How many receives are posted ahead.
    pub(crate) slots: usize,
    /// Bulk data travels in MPI messages of at most this many bytes.
    pub(crate) split: usize,
    /// A message that announces more bulk data than this, in bytes, is taken for garbage.
    pub(crate) largest: u64,
    /// How long [`Transport::close`](crate::comm::Transport::close) waits for queued sends.
    pub(crate) close_limit: Duration,
}

impl Default for MpiOptions {
    fn default() -> Self {
        MpiOptions {
            slot_bytes: 16 << 10,
            slots: 16,
            split: 256 << 20,
            largest: 64 << 30,
            close_limit: Duration::from_secs(30),
        }
    }
}

impl MpiOptions {
    /// Whether MPI can do with them.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] with the first that it cannot.
    pub(super) fn check(&self) -> Result<()> {
        let int = i32::MAX as usize;
        let range = |name: &str, value: usize, least: usize, most: usize| {
            let text = format!("MPI transport: {name} is {value}, {least} to {most} is possible");
            if (least..=most).contains(&value) { Ok(()) } else { Err(Error::new(ErrorKind::Config, text)) }
        };
        // An envelope of one piece takes 16 bytes. Frame numbers must not wrap within the slots.
        range("slot_bytes", self.slot_bytes, 16, int)?;
        range("slots", self.slots, 1, 1024)?;
        range("split", self.split, 1, int)
    }
}

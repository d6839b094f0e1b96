//! Options of the MPI transport: sizes of messages, number of posted receives, and the time limit for queued sends at the end.

use std::time::Duration;

use crate::error::{Error, ErrorKind, Result};

/// Options of the MPI transport. All ranks must use the same values of `slot_bytes` and `split`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MpiOptions {
    /// Maximum size in bytes of a message that is sent as one MPI message, if the message has no large data; receives of this size are posted ahead.
    pub(crate) slot_bytes: usize,
    /// Number of receives of control messages (short messages, and envelopes of long ones) that are posted ahead.
    pub(crate) slots: usize,
    /// Maximum size in bytes of one MPI message with bulk data; larger data are sent in several MPI messages.
    pub(crate) split: usize,
    /// Maximum size in bytes of the bulk data of a message. A message that announces more is treated as corrupt.
    pub(crate) largest: u64,
    /// Time for which a rank waits for the other ranks of its communicator to duplicate it.
    pub(crate) start_limit: Duration,
    /// Time for which [`Transport::close`](crate::comm::Transport::close) waits for queued sends.
    pub(crate) close_limit: Duration,
}

impl Default for MpiOptions {
    fn default() -> Self {
        MpiOptions {
            slot_bytes: 16 << 10,
            slots: 16,
            split: 256 << 20,
            largest: 64 << 30,
            start_limit: Duration::from_secs(3600),
            close_limit: Duration::from_secs(30),
        }
    }
}

impl MpiOptions {
    /// Maximum number of receives of control messages that are posted ahead. It is below the modulus of message numbers (8192), so that no two waiting
    /// messages have the same number.
    pub(crate) const MOST_SLOTS: usize = 1024;

    /// Returns the number of receives of control messages that a rank posts ahead, of `size` ranks.
    ///
    /// The simulator transfers a message only when a receive for it is posted, whereas MPI transfers short ones at once. Rank 0, which receives messages
    /// from all ranks, therefore posts a receive for each. Elsewhere they would only need memory.
    pub(super) fn slots_of(&self, rank: usize, size: usize, is_simulated: bool) -> usize {
        match is_simulated && rank == 0 {
            true => self.slots.max(size.min(Self::MOST_SLOTS)),
            false => self.slots,
        }
    }

    /// Checks that the options are in the ranges that MPI supports.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] for the first option out of range.
    pub(super) fn check(&self) -> Result<()> {
        let int = i32::MAX as usize;
        let range = |name: &str, value: usize, least: usize, most: usize| {
            let text = format!("MPI transport: {name} is {value}, expected {least} to {most}");
            if (least..=most).contains(&value) { Ok(()) } else { Err(Error::new(ErrorKind::Config, text)) }
        };
        // A receive buffer, of `slot_bytes` bytes, is at least as large as the smallest envelope (16).
        range("slot_bytes", self.slot_bytes, 16, int)?;
        range("slots", self.slots, 1, Self::MOST_SLOTS)?;
        range("split", self.split, 1, int)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rank_0_of_a_simulation_posts_a_receive_for_every_rank() {
        let slots = |rank, size, is_simulated| MpiOptions::default().slots_of(rank, size, is_simulated);
        assert_eq!([slots(0, 4, true), slots(0, 256, true), slots(0, 4_000, true)], [16, 256, 1024]);
        assert_eq!([slots(1, 256, true), slots(0, 256, false)], [16, 16]);
    }
}

//! Neighbours of a rank, and the queues of messages that they have sent and that the rank has not processed.

use std::collections::VecDeque;

use bytes::Bytes;

use super::messages::ToNeighbour;
use crate::error::Result;

/// Position of a rank among the ranks that hold rows, which form a chain in the order of the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) rank: usize,
    /// Number of ranks that hold rows. They are ranks 0 to `chain` - 1.
    pub(super) chain: usize,
}

impl Position {
    /// Returns the rank that holds the rows directly above those of this rank.
    pub(super) fn above(self) -> Option<usize> {
        self.rank.checked_sub(1)
    }

    /// Returns the rank that holds the rows directly below those of this rank.
    pub(super) fn below(self) -> Option<usize> {
        (self.rank + 1 < self.chain).then_some(self.rank + 1)
    }

    /// For the first or last rank of the chain, returns the rank at the opposite end; `None` for other ranks. If only one rank holds rows, it is its
    /// own opposite end.
    pub(super) fn across(self) -> Option<usize> {
        match self.rank {
            0 => Some(self.chain - 1),
            rank => (rank + 1 == self.chain).then_some(0),
        }
    }
}

pub(super) type Queue = VecDeque<ToNeighbour<Bytes>>;

/// Messages that a rank has received and not processed, by neighbour.
#[derive(Debug)]
pub(super) struct Neighbours {
    position: Position,
    pub(super) above: Queue,
    pub(super) below: Queue,
}

impl Neighbours {
    pub(super) fn of(position: Position) -> Self {
        Neighbours { position, above: Queue::new(), below: Queue::new() }
    }

    /// Adds a message to the queue of its sender.
    ///
    /// # Errors
    /// If the sender is not a neighbour.
    #[inline]
    pub(super) fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()> {
        if Some(from) == self.position.above() {
            self.above.push_back(message);
        } else if Some(from) == self.position.below() {
            self.below.push_back(message);
        } else {
            return Err(message.unexpected(from, "no message, because it is not a neighbour"));
        }
        Ok(())
    }
}

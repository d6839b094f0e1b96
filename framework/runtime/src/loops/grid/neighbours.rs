//! A rank's neighbours, and what they have sent and it has not needed yet.

use std::collections::VecDeque;

use bytes::Bytes;

use super::messages::ToNeighbour;
use crate::error::Result;

/// Where a rank is in the chain of those that hold rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) rank: usize,
    /// How many ranks hold rows: these are the first ones.
    pub(super) chain: usize,
}

impl Position {
    /// The rank that holds the rows above.
    pub(super) fn above(self) -> Option<usize> {
        self.rank.checked_sub(1)
    }

    /// The rank that holds the rows below.
    pub(super) fn below(self) -> Option<usize> {
        (self.rank + 1 < self.chain).then_some(self.rank + 1)
    }

    /// Of a rank at an end of the chain: the rank at the other end, which it is itself where it is alone.
    pub(super) fn across(self) -> Option<usize> {
        match self.rank {
            0 => Some(self.chain - 1),
            rank => (rank + 1 == self.chain).then_some(0),
        }
    }
}

/// Messages of one neighbour, in the order in which they were sent.
pub(super) type Queue = VecDeque<ToNeighbour<Bytes>>;

/// A queue for each neighbour.
#[derive(Debug)]
pub(super) struct Neighbours {
    position: Position,
    pub(super) above: Queue,
    pub(super) below: Queue,
}

impl Neighbours {
    /// Those of the rank at this position.
    pub(super) fn of(position: Position) -> Self {
        Neighbours { position, above: Queue::new(), below: Queue::new() }
    }

    /// A message has come.
    ///
    /// # Errors
    /// If it is not from a neighbour.
    #[inline]
    pub(super) fn receive(&mut self, from: usize, message: ToNeighbour<Bytes>) -> Result<()> {
        if Some(from) == self.position.above() {
            self.above.push_back(message);
        } else if Some(from) == self.position.below() {
            self.below.push_back(message);
        } else {
            return Err(message.unexpected(from, "nothing, as it is no neighbour"));
        }
        Ok(())
    }
}

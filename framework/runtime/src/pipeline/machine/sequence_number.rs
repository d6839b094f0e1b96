//! Sequence numbers: the order of batches in a pipeline's stream.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Position of a batch in the order of a pipeline's stream.
///
/// The source numbers its batches. An expanding stage (one that makes several items from one) turns a batch into several pieces, which are batches
/// again; a later expanding stage makes pieces of them. Batches at the same stage have passed the same number of expanding stages, so their numbers
/// compare lexicographically.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) struct SequenceNumber {
    /// Number, from 0, of the source batch from which this batch was made.
    pub(crate) batch: u64,
    /// For each expanding stage (one that makes several items from one) that the batch has passed: index, from 0, of this batch among the parts of
    /// the stage's output for its input batch.
    pub(crate) pieces: Vec<u64>,
}

impl SequenceNumber {
    /// Returns the sequence number of the first batch of the stream behind `levels` expanding stages (stages that make several items from one).
    pub(crate) fn first(levels: usize) -> Self {
        SequenceNumber { batch: 0, pieces: vec![0; levels] }
    }

    /// Returns the sequence number of part `at` of the output for this batch at an expanding stage (one that makes several items from one).
    pub(crate) fn piece(&self, at: u64) -> Self {
        let mut piece = self.clone();
        piece.pieces.push(at);
        piece
    }

    /// Returns the sequence number of the batch from which the last expanding stage (one that makes several items from one) made this batch, and the
    /// index of this batch among the parts of the stage's output; `None` for a batch that has passed no such stage.
    pub(crate) fn whole(&self) -> Option<(Self, u64)> {
        let mut whole = self.clone();
        whole.pieces.pop().map(|at| (whole, at))
    }

    /// Returns true if this sequence number is `other`, or belongs to the first part of the output that expanding stages have made from batch
    /// `other`. (An expanding stage makes several items from one.)
    pub(crate) fn begins(&self, other: &SequenceNumber) -> bool {
        let depth = other.pieces.len();
        self.batch == other.batch
            && self.pieces.get(..depth) == Some(&other.pieces)
            && self.pieces[depth..].iter().all(|&at| at == 0)
    }

    /// Returns the index of the receiver of the batch, if `count` receivers get batches round robin.
    pub(crate) fn turn(&self, count: usize) -> usize {
        let sum = self.pieces.iter().fold(self.batch, |sum, &at| sum.wrapping_add(at));
        (sum % count.max(1) as u64) as usize
    }
}

impl From<u64> for SequenceNumber {
    fn from(batch: u64) -> Self {
        SequenceNumber { batch, pieces: Vec::new() }
    }
}

impl fmt::Display for SequenceNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.batch)?;
        self.pieces.iter().try_for_each(|at| write!(f, ".{at}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_are_ordered_before_the_next_batch() {
        let batch = SequenceNumber::from(7);
        let (first, tenth) = (batch.piece(0), batch.piece(10));
        let order = [&batch, &first, &first.piece(3), &tenth, &SequenceNumber::from(8)];
        assert!(order.is_sorted() && first < tenth);
        assert_eq!(tenth.piece(2).to_string(), "7.10.2");
        assert_eq!(tenth.whole(), Some((batch.clone(), 10)));
        assert_eq!(batch.whole(), None);
        assert_eq!((tenth.turn(4), batch.turn(4)), (1, 3));
    }

    #[test]
    fn first_piece_begins_its_batch() {
        let batch = SequenceNumber::from(7);
        assert!(batch.begins(&batch) && batch.piece(0).piece(0).begins(&batch));
        assert!(batch.piece(2).piece(0).begins(&batch.piece(2)));
        assert!(!batch.piece(2).begins(&batch) && !batch.piece(0).piece(1).begins(&batch));
        assert!(!batch.begins(&batch.piece(0)), "the stage has made nothing yet");
        assert_eq!(SequenceNumber::first(2), SequenceNumber::from(0).piece(0).piece(0));
    }
}

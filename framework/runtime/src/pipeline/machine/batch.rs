//! Consecutive items of the stream on their way through it.

use std::time::Duration;

use bytes::Bytes;

use super::super::erased::{Codec, Items};
use super::super::range::Range;
use super::sequence_number::SequenceNumber;
use crate::comm::Part;

/// A batch with its place in the stream. Its items are looked at by stages only.
pub(crate) struct Batch {
    pub(crate) number: SequenceNumber,
    /// What it is a piece of, by expanding stage that it has been through.
    pub(crate) pieces: Vec<Piece>,
    /// Nothing comes behind it: serial stages give what they still have.
    pub(crate) is_end: bool,
    /// The stage that comes next; the number of stages where that is the sink. What it holds are that stage's
    /// inputs.
    pub(crate) stage: usize,
    pub(crate) range: Range,
    /// Time that stages have spent on it so far.
    pub(crate) service: Duration,
    /// Bytes that it had at its widest edge so far, on a wire or from a block to the next on the same rank; 0 before.
    pub(crate) widest: u64,
    /// Items of the stream that come behind it, if the source knew.
    pub(crate) behind: Option<u64>,
    pub(crate) payload: Payload,
}

/// What is known of a piece that an expanding stage has made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// Whether the stage has made all of the batch with it.
    pub(crate) is_last: bool,
    /// Items in it when it was made.
    pub(crate) items: u32,
}

/// What a batch holds: items, or the bytes that they travel as.
pub(crate) enum Payload {
    Items(Items),
    Bytes {
        head: Bytes,
        parts: Vec<Part>,
    },
    /// The next expanding stage has it, and has made `made` pieces of it.
    Kept {
        made: u64,
    },
}

impl Batch {
    /// It stays on this rank: what it holds is weighed instead of packed.
    pub(crate) fn weigh(&mut self, codec: &dyn Codec) {
        if let Payload::Items(items) = &self.payload {
            self.widest = self.widest.max(codec.weigh(items));
        }
    }

    /// The number of what comes behind it at the stages where it is now.
    pub(crate) fn following(&self) -> SequenceNumber {
        let mut next = self.number.clone();
        for (at, piece) in next.pieces.iter_mut().zip(&self.pieces).rev() {
            if !piece.is_last {
                *at += 1;
                return next;
            }
            *at = 0;
        }
        next.batch += 1;
        next
    }

    /// Of the expanding stages behind it, counted from the last, those that have made all of what they had with it.
    pub(crate) fn ended(&self) -> usize {
        self.pieces.iter().rev().take_while(|piece| piece.is_last).count()
    }

    /// Whether it is all that has become of a batch of the source.
    pub(crate) fn is_whole(&self) -> bool {
        self.ended() == self.pieces.len() && self.number.pieces.iter().all(|&at| at == 0)
    }

    /// Items of the source of which it holds something, or held something before it was dropped.
    pub(crate) fn sources(&self) -> usize {
        match &self.range.made {
            Some(made) if !self.is_whole() => made.sources().max(1),
            _ => self.range.count as usize,
        }
    }

    /// About how many of its items come behind it, if the source knew.
    pub(crate) fn items_behind(&self) -> Option<u64> {
        match &self.range.made {
            None => self.behind,
            // What was made of one item is about what will be made of others.
            Some(_) if self.is_whole() => self.behind.map(|behind| {
                let ratio = self.range.live() as f64 / f64::from(self.range.count.max(1));
                (behind as f64 * ratio) as u64
            }),
            Some(_) => None,
        }
    }

    /// The batch as the expanding stage has it that has made this piece of it, after `made` pieces.
    pub(crate) fn kept(&self, whole: SequenceNumber, made: u64) -> Batch {
        let stages = self.pieces.len().saturating_sub(1);
        Batch {
            number: whole,
            pieces: self.pieces[..stages].to_vec(),
            is_end: self.is_end,
            stage: self.stage.saturating_sub(1),
            range: Range { dropped: Vec::new(), made: None, ..self.range },
            service: Duration::ZERO,
            widest: 0,
            behind: self.behind,
            payload: Payload::Kept { made },
        }
    }

    /// The same batch, which an expanding stage has, after it has made `made` pieces.
    pub(crate) fn kept_on(&self, made: u64) -> Batch {
        Batch {
            number: self.number.clone(),
            pieces: self.pieces.clone(),
            range: self.range.clone(),
            payload: Payload::Kept { made },
            ..*self
        }
    }
}

impl std::fmt::Debug for Batch {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batch")
            .field("number", &self.number)
            .field("stage", &self.stage)
            .field("range", &self.range)
            .finish_non_exhaustive()
    }
}

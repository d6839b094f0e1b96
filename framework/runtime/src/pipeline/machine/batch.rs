//! Batches of consecutive items of the stream.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::super::erased::Items;
use super::super::range::Range;
use super::sequence_number::SequenceNumber;
use crate::comm::Part;

/// Batch of a stream, with its position in the stream. Only stages access the items.
pub(crate) struct Batch {
    pub(crate) number: SequenceNumber,
    /// For each expanding stage that the batch has passed: description of this batch as a piece of that stage's output.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) kind: BatchKind,
    /// Number of the stage that processes the batch next; the number of stages if the sink is next. Until then the batch holds the output of the
    /// stage before.
    pub(crate) stage: usize,
    pub(crate) range: Range,
    /// Total time that stages have spent on the batch so far.
    pub(crate) service: Duration,
    /// Largest size in bytes that the batch has had so far between two blocks of stages, as a message or on one rank; 0 before the first block.
    pub(crate) widest: u64,
    /// Number of items of the source that follow this batch, if it is known.
    pub(crate) behind: Option<u64>,
    pub(crate) payload: Payload,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum BatchKind {
    /// Batch that carries items of the stream.
    #[default]
    Items,
    /// Last batch of the stream, after all items: serial stages emit their last item in it.
    End,
    /// Marker of a snapshot, an empty batch: each serial stage saves its state after the items before the batch. The batch collects the states.
    Marker(Vec<SavedStage>),
}

/// State of a serial stage after it has processed all items before the marker of a snapshot (an empty batch).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedStage {
    pub(crate) stage: u32,
    pub(crate) state: Vec<u8>,
}

/// Description of a batch as a piece of the output that an expanding stage makes of its input batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// True if this is the last piece of the stage's output for its input batch.
    pub(crate) is_last: bool,
    /// Number of items that the stage put into this piece of its output.
    pub(crate) items: u32,
}

/// Content of a batch: items, or their encoded bytes as received.
pub(crate) enum Payload {
    Items(Items),
    Bytes {
        head: Bytes,
        parts: Vec<Part>,
    },
    /// No items: the next expanding stage has kept them and has made `produced` pieces of its output for the batch.
    Kept {
        produced: u64,
    },
}

impl Batch {
    /// Measures the size in bytes of a batch that stays on this rank and is therefore not encoded.
    pub(crate) fn weigh(&mut self) {
        if let Payload::Items(items) = &self.payload {
            self.widest = self.widest.max(items.weigh() as u64);
        }
    }

    /// Returns the sequence number of the batch that follows this one in the order of the stream: the next piece of the same input batch, or the
    /// first piece of the next batch.
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

    /// Returns the number of expanding stages, counted back from the last one, whose output for an input batch ends with this batch.
    pub(crate) fn ended(&self) -> usize {
        self.pieces.iter().rev().take_while(|piece| piece.is_last).count()
    }

    /// Returns true if the batch holds all items that were made from a batch of the source.
    pub(crate) fn is_whole(&self) -> bool {
        self.ended() == self.pieces.len() && self.number.pieces.iter().all(|&at| at == 0)
    }

    /// Returns the number of source items from which the items of the batch were made, including source items whose output was dropped since.
    pub(crate) fn sources(&self) -> usize {
        match &self.range.produced {
            Some(produced) if !self.is_whole() => produced.sources().max(1),
            _ => self.range.count as usize,
        }
    }

    /// Returns the approximate number of items that follow this batch at its current stage, if the number of items left in the source is known.
    pub(crate) fn items_behind(&self) -> Option<u64> {
        match &self.range.produced {
            None => self.behind,
            // Each later source item is assumed to yield as many items as the source items of this batch did on average.
            Some(_) if self.is_whole() => self.behind.map(|behind| {
                let ratio = self.range.live() as f64 / f64::from(self.range.count.max(1));
                (behind as f64 * ratio) as u64
            }),
            Some(_) => None,
        }
    }

    /// Returns the input batch from which an expanding stage made this batch as a piece, without its items, which the stage keeps. The input batch
    /// has number `whole`, and `produced` pieces have been made of it.
    pub(crate) fn kept(&self, whole: SequenceNumber, produced: u64) -> Batch {
        let stages = self.pieces.len().saturating_sub(1);
        Batch {
            number: whole,
            pieces: self.pieces[..stages].to_vec(),
            kind: self.kind.clone(),
            stage: self.stage.saturating_sub(1),
            range: Range { dropped: Vec::new(), produced: None, ..self.range },
            service: Duration::ZERO,
            widest: 0,
            behind: self.behind,
            payload: Payload::Kept { produced },
        }
    }

    /// Returns a copy of this batch without items, for the expanding stage that keeps its items and has made `produced` pieces of it.
    pub(crate) fn kept_on(&self, produced: u64) -> Batch {
        Batch {
            number: self.number.clone(),
            pieces: self.pieces.clone(),
            kind: self.kind.clone(),
            range: self.range.clone(),
            payload: Payload::Kept { produced },
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

//! Batches of consecutive items of a pipeline's stream.

use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::super::erased::Items;
use super::super::range::Range;
use super::sequence_number::SequenceNumber;
use crate::comm::Part;

/// Batch of consecutive items of a pipeline's stream. Only stages access the items.
pub(crate) struct Batch {
    pub(crate) number: SequenceNumber,
    /// For each expanding stage (one that makes several items from one) that the batch has passed: description of the batch as a part of the stage's
    /// output.
    pub(crate) pieces: Vec<ExpansionPiece>,
    pub(crate) kind: BatchKind,
    /// Number of the stage that processes the batch next; the number of stages if the sink is next. The items are the output of the preceding stage.
    pub(crate) stage: usize,
    pub(crate) range: Range,
    pub(crate) service: Duration,
    /// Largest size in bytes that the batch has had so far between two groups of consecutive stages, as a message or on one rank; 0 before the first
    /// group.
    pub(crate) widest: u64,
    /// Number of source items that follow this batch, if it is known.
    pub(crate) behind: Option<u64>,
    pub(crate) payload: Payload,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum BatchKind {
    #[default]
    Items,
    /// Last batch of the stream, after all items: serial stages emit their last item in it.
    End,
    /// Marker of a snapshot of the pipeline, a batch without items: each serial stage saves its state after the items before it. The batch collects
    /// the states.
    Marker(Vec<SavedStage>),
}

/// State of a serial stage after all items before a snapshot of the pipeline.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SavedStage {
    pub(crate) stage: u32,
    pub(crate) state: Vec<u8>,
}

/// Description of a batch as a part (piece) of the output of an expanding stage (one that makes several items from one) for its input batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ExpansionPiece {
    pub(crate) is_last: bool,
    /// Number of items that the stage put into this part of its output.
    pub(crate) items: u32,
}

pub(crate) enum Payload {
    Items(Items),
    Bytes {
        head: Bytes,
        parts: Vec<Part>,
    },
    /// No items: the next stage, which makes several items from one, has kept them and has made `produced` parts of its output.
    Kept {
        produced: u64,
    },
}

impl Batch {
    /// Measures the size in bytes of a batch that stays on this rank and is therefore never encoded.
    pub(crate) fn measure_size(&mut self) {
        if let Payload::Items(items) = &self.payload {
            self.widest = self.widest.max(items.weigh() as u64);
        }
    }

    /// Returns the sequence number of the batch that follows this one in the order of the stream: the next part of the output for the same input
    /// batch, or the first part for the next batch.
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

    /// Returns the number of expanding stages (stages that make several items from one) for whose input batch this batch is the last part of the
    /// output. They are counted backwards from the last expanding stage that the batch has passed, up to the first for which more output follows.
    pub(crate) fn ended(&self) -> usize {
        self.pieces.iter().rev().take_while(|piece| piece.is_last).count()
    }

    /// Returns true if the batch holds all items that were made from one batch of the source.
    pub(crate) fn is_whole(&self) -> bool {
        self.ended() == self.pieces.len() && self.number.pieces.iter().all(|&at| at == 0)
    }

    /// Returns the number of source items from which the items of the batch were made, including source items whose output was dropped later.
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
            // The model assumes that later source items yield as many items, on average, as the source items of this batch.
            Some(_) if self.is_whole() => self.behind.map(|behind| {
                let ratio = self.range.live() as f64 / f64::from(self.range.count.max(1));
                (behind as f64 * ratio) as u64
            }),
            Some(_) => None,
        }
    }

    /// Returns the input batch from whose items a stage that makes several items from one made this batch, but without the items, which the stage
    /// keeps. The input batch has number `whole`, and the stage has made `produced` parts of its output for it.
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

    /// Returns a copy of this batch without items, for the stage that makes several items from one: it keeps the items and has made `produced` parts
    /// of its output for them.
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

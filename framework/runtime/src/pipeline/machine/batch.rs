//! Consecutive items of the stream on their way through it.

use std::time::Duration;

use bytes::Bytes;

use super::super::erased::{Codec, Items, Range};
use crate::comm::Part;

/// A batch with its place in the stream. Its items are looked at by stages only.
pub(crate) struct Batch {
    /// Which batch of the stream this is, from 0.
    pub(crate) number: u64,
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

/// What a batch holds: items, or the bytes that they travel as.
pub(crate) enum Payload {
    Items(Items),
    Bytes { head: Bytes, parts: Vec<Part> },
}

impl Batch {
    /// It stays on this rank: what it holds is weighed instead of packed.
    pub(crate) fn weigh(&mut self, codec: &dyn Codec) {
        if let Payload::Items(items) = &self.payload {
            self.widest = self.widest.max(codec.weigh(items));
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

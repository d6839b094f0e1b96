//! What goes between a machine and the compute side, and what is counted on the way.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::fill::Fill;
use super::batch::Batch;
use super::sequence_number::SequenceNumber;

/// What the compute side is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Draw a batch from the source; an empty one if that `is_end`.
    Draw { number: u64, first: u64, fill: Fill, is_end: bool },
    /// Run these stages on a batch. What a stage makes of one item and more of another is cut as `fill` says: then the first
    /// piece is what is done, and stages behind it are left to another job.
    Process { stages: Range<usize>, batch: Batch, fill: Fill },
    /// Give a batch to the sink.
    Consume { batch: Batch },
    /// Save the state of a serial stage, and let go of it.
    Release { stage: usize },
    /// Go on with a serial stage from its saved state.
    Restore { stage: usize, state: Vec<u8> },
}

/// What came of a job.
#[derive(Debug)]
pub(crate) enum Done {
    /// A batch was drawn (none at the very end); whether the stream ended behind it, and how many items are left
    /// if the source knows.
    Drawn { batch: Option<Batch>, ended: bool, left: Option<u64> },
    /// Stages have been through, which took so long; the batch knows which comes next.
    Processed { batch: Batch, took: Duration },
    /// The sink has taken a batch.
    Consumed(Consumed),
    /// What a serial stage remembers.
    Released { stage: usize, state: Vec<u8> },
    /// A serial stage is ready to go on here.
    Restored { stage: usize },
}

/// A batch that the sink has taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Consumed {
    /// Items that the sink got.
    pub(crate) items: usize,
    /// Items that the source put into the batch of which this is the end, and 0 if more comes of that.
    pub(crate) done: u32,
    /// [`Batch::sources`] and [`Batch::ended`].
    pub(crate) sources: usize,
    pub(crate) ended: usize,
    /// Items that it had when it was made, if it is a piece.
    pub(crate) made: Option<u32>,
    pub(crate) service: Duration,
    pub(crate) bytes: u64,
}

impl Consumed {
    /// That the sink takes this batch.
    pub(crate) fn of(batch: &Batch) -> Self {
        let ended = batch.ended();
        Consumed {
            items: batch.range.live(),
            done: if ended == batch.pieces.len() { batch.range.count } else { 0 },
            sources: batch.sources(),
            ended,
            made: batch.pieces.last().map(|piece| piece.items),
            service: batch.service,
            bytes: batch.widest,
        }
    }
}

/// Why a rank has nothing to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// Nothing has arrived.
    Input,
    /// It has finished batches that nobody has asked for, or (rank 0) the window is closed.
    Downstream,
}

/// Counters of the traffic of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) sent_batches: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_batches: u64,
    pub(crate) received_bytes: u64,
    /// Batches that came under an older mapping, or waited when the mapping changed, and were sent on.
    pub(crate) forwarded: u64,
    /// Serial stages given to another rank.
    pub(crate) handed_over: u64,
    /// Mappings that came while a serial stage was between two ranks here.
    pub(crate) overtaken: u64,
}

/// Something that the machine has done which a log of events wants to know.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum StreamEvent {
    /// A serial stage went to another rank.
    HandOver { stage: usize, to: usize, next: SequenceNumber, bytes: usize },
    /// A serial stage came from another rank.
    TakeOver { stage: usize, from: usize, next: SequenceNumber },
    /// Batches that were here, or came here, by an earlier mapping went on to another rank.
    Forwarded { epoch: u32, batches: u64 },
}

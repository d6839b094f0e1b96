//! What goes between a machine and the compute side, and what is counted on the way.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::source_sink::Fill;
use super::batch::Batch;

/// What the compute side is asked to do.
#[derive(Debug)]
pub(crate) enum Job {
    /// Draw a batch from the source.
    Draw { number: u64, first: u64, fill: Fill },
    /// Run these stages on a batch.
    Process { stages: Range<usize>, batch: Batch },
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
    Consumed { count: usize, service: Duration, bytes: u64 },
    /// What a serial stage remembers.
    Released { stage: usize, state: Vec<u8> },
    /// A serial stage is ready to go on here.
    Restored { stage: usize },
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
    HandOver { stage: usize, to: usize, next: u64, bytes: usize },
    /// A serial stage came from another rank.
    TakeOver { stage: usize, from: usize, next: u64 },
    /// Batches that were here, or came here, by an earlier mapping went on to another rank.
    Forwarded { epoch: u32, batches: u64 },
}

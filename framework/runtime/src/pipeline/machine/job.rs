//! Jobs for the thread that runs stages, their results, and counters of a rank's traffic.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::fill::Fill;
use super::batch::{Batch, BatchKind, SavedStage};
use crate::balance::probe::Speed;

/// Job for the thread that runs source, stages and sink.
#[derive(Debug)]
pub(crate) enum Job {
    /// Draw a batch from the source. The batch is empty unless its kind is [`Items`](BatchKind::Items).
    Draw { number: u64, first: u64, fill: Fill, kind: BatchKind },
    /// Run the stages `stages` on a batch. If `fill` cuts the output of an expanding stage into pieces, the job ends with the first piece, and the
    /// stages behind the expanding one are left to another job.
    Process { stages: Range<usize>, batch: Batch, fill: Fill },
    /// Pass a batch to the sink. If the batch is the marker of a snapshot, the sink commits the items before it.
    Consume { batch: Batch },
    /// Let the sink continue where it committed its items before a restart of the program. No result follows.
    ResumeSink(Position),
    /// Finish the sink, because it has received all items.
    FinishSink,
    /// Save the state of a serial stage and drop the stage, which migrates to another rank.
    Release { stage: usize },
    /// Continue a serial stage from its saved state.
    Restore { stage: usize, state: Vec<u8> },
    /// Create the stages in `hosted` that do not exist on this rank yet.
    SetUp { hosted: Vec<usize> },
    /// Measure the sizes of items on the next `batches` batches of every edge. This job has no result.
    Measure { batches: usize },
    /// Measure the speed of the rank.
    Probe,
}

impl Job {
    /// Returns true if the rank must not end the run before the result of the job has arrived, given that its coordinator or worker has requested the
    /// job.
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self, Job::Measure { .. } | Job::Restore { .. } | Job::ResumeSink(_))
    }
}

/// Result of a job for the thread that runs stages.
#[derive(Debug)]
pub(crate) enum Done {
    /// A batch was drawn, or `None` if the stream ended without one. `ended` is true if the stream ended behind the batch, and `left` is the number
    /// of remaining items, if the source knows it.
    Drawn { batch: Option<Batch>, ended: bool, left: Option<u64> },
    /// Stages have processed the batch in the time `took`. The batch names its next stage.
    Processed { batch: Batch, took: Duration },
    /// The sink has taken a batch.
    Consumed(Consumed),
    /// The sink has committed all items before the marker of a snapshot.
    Committed(Consumed, Committed),
    /// The output of the sink is complete.
    SinkFinished,
    /// The serial stage was saved with this state.
    Released { stage: usize, state: Vec<u8> },
    /// The serial stage has its saved state and can continue on this rank.
    Restored { stage: usize },
    /// All stages that the mapping assigns to this rank have been created.
    SetUp(SetUp),
    /// Measured speed of the rank.
    Probed(Speed),
}

/// Stages of a rank that were created for a mapping.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetUp {
    /// Created serial stages whose state can migrate to another rank.
    pub(crate) movable: Vec<usize>,
    /// Created stages, and the duration of each factory call.
    pub(crate) warm_up: Vec<(usize, Duration)>,
}

/// Position in the stream at which the sink has committed its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    /// Number of source items before the position.
    pub(crate) items: u64,
    /// State of the sink after it has committed its items.
    pub(crate) sink: Vec<u8>,
}

/// Content of a snapshot of the stream.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Committed {
    pub(crate) position: Position,
    pub(crate) stages: Vec<SavedStage>,
    /// Total time in which the stages saved their states and the sink committed its items.
    pub(crate) took: Duration,
}

/// Record of a batch that the sink has taken.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Consumed {
    /// Number of items that the sink received.
    pub(crate) items: usize,
    /// Number of items in the batch of the source that is complete with this batch; 0 if more pieces of it follow.
    pub(crate) done: u32,
    /// Number of source items from which the batch was made: the result of [`Batch::sources`]. `ended` is the result of [`Batch::ended`].
    pub(crate) sources: usize,
    pub(crate) ended: usize,
    /// If the batch is a piece of an expanding stage's output, the number of items that the stage put into it.
    pub(crate) produced: Option<u32>,
    pub(crate) service: Duration,
    pub(crate) bytes: u64,
}

impl Consumed {
    /// Returns the record of a batch that the sink takes.
    pub(crate) fn of(batch: &Batch) -> Self {
        let ended = batch.ended();
        Consumed {
            items: batch.range.live(),
            done: if ended == batch.pieces.len() { batch.range.count } else { 0 },
            sources: batch.sources(),
            ended,
            produced: batch.pieces.last().map(|piece| piece.items),
            service: batch.service,
            bytes: batch.widest,
        }
    }
}

/// Reason why a rank has nothing to compute.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// No batch for the rank has arrived.
    Input,
    /// The rank holds finished batches that no receiver has requested, or (rank 0) the window is closed.
    Downstream,
}

/// Counters of the batches that one rank has sent and received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) sent_batches: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_batches: u64,
    pub(crate) received_bytes: u64,
    /// Number of batches that were sent on to another rank, because they arrived under an earlier mapping or waited when the mapping changed.
    pub(crate) forwarded: u64,
    /// Number of serial stages that migrated from this rank to another one.
    pub(crate) handed_over: u64,
    /// Number of times that the mapping changed while a serial stage was migrating from or to this rank.
    pub(crate) overtaken: u64,
}

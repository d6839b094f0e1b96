//! Jobs (calls of user code) for the thread that runs source, stages and sink of a pipeline, their results, and counters of the batches that a rank
//! sends and receives.

use std::ops::Range;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::super::fill::Fill;
use super::batch::{Batch, BatchKind, SavedStage};
use crate::balance::probe::Speed;

/// Job (a call of user code, or a measurement) for the thread that runs source, stages and sink.
#[derive(Debug)]
pub(crate) enum Job {
    /// Draw a batch from the source. Only a batch of kind [`Items`](BatchKind::Items) contains items.
    Draw {
        number: u64,
        first: u64,
        fill: Fill,
        kind: BatchKind,
    },
    /// Run `stages` on a batch. If a stage that makes several items from one reaches the limit `fill` before the end of its output, the call ends
    /// with this part of the output, and other calls run the later stages.
    Process {
        stages: Range<usize>,
        batch: Batch,
        fill: Fill,
    },
    /// Pass a batch to the sink. If the batch is the marker of a snapshot (a batch without items), the sink commits the items before it.
    Consume {
        batch: Batch,
    },
    /// Restore the sink to the state that it had committed before the program was restarted. No result follows.
    ResumeSink(Position),
    /// Call the sink's `finish`, because the sink has received all items.
    FinishSink,
    /// Save the state of a serial stage and drop the stage, which migrates to another rank.
    Release {
        stage: usize,
    },
    Restore {
        stage: usize,
        state: Vec<u8>,
    },
    /// Create the stages in `hosted` that do not exist on this rank yet.
    SetUp {
        hosted: Vec<usize>,
    },
    /// Measure the encoded size of the next `batches` batches between any two stages. This job has no result.
    Measure {
        batches: usize,
    },
    /// Measure the speed of the rank.
    Probe,
}

impl Job {
    pub(super) fn is_answered(&self) -> bool {
        !matches!(self, Job::Measure { .. } | Job::Restore { .. } | Job::ResumeSink(_))
    }
}

/// Result of a [`Job`] (a call of user code, or a measurement).
#[derive(Debug)]
pub(crate) enum Done {
    /// A batch was drawn from the source, or `None` if the stream ended without one. `ended` is true if no batch follows, and `left` is the number of
    /// remaining items, if the source knows it.
    Drawn {
        batch: Option<Batch>,
        ended: bool,
        left: Option<u64>,
    },
    /// Stages have processed the batch in the time `took`. The batch holds the number of its next stage.
    Processed {
        batch: Batch,
        took: Duration,
    },
    Consumed(Consumed),
    /// The sink has committed all items before the marker of a snapshot (a batch without items).
    Committed(Consumed, Committed),
    /// The output of the sink is complete.
    SinkFinished,
    /// A serial stage that migrates to another rank was saved, with the state `state`.
    Released {
        stage: usize,
        state: Vec<u8>,
    },
    Restored {
        stage: usize,
    },
    /// All stages that the mapping assigns to this rank have been created.
    SetUp(SetUp),
    /// Measured speed of the rank.
    Probed(Speed),
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SetUp {
    pub(crate) movable: Vec<usize>,
    pub(crate) warm_up: Vec<(usize, Duration)>,
}

/// Point of the stream up to which the sink has committed its items.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Position {
    pub(crate) items: u64,
    pub(crate) sink: Vec<u8>,
}

/// Snapshot of the stream: the states of the stages and the sink after the same items.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Committed {
    pub(crate) position: Position,
    pub(crate) stages: Vec<SavedStage>,
    /// Total time in which the stages saved their states and the sink committed its items for this snapshot.
    pub(crate) took: Duration,
}

/// Batch that has reached the sink, as the sink's rank records it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Consumed {
    pub(crate) items: usize,
    /// Number of source items that are done: those of the source batch, if all output made from it has reached the sink with this batch; otherwise 0.
    pub(crate) done: u32,
    /// Number of source items from which the items of the batch were made ([`Batch::sources`]). `ended` is the number of stages whose output for one
    /// input batch ends with this batch ([`Batch::ended`]).
    pub(crate) sources: usize,
    pub(crate) ended: usize,
    /// If the batch is a part of the output of a stage that makes several items from one, the number of items that the stage put into it.
    pub(crate) produced: Option<u32>,
    pub(crate) service: Duration,
    pub(crate) bytes: u64,
}

impl Consumed {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Idle {
    /// No batch for the rank has arrived.
    Input,
    /// No receiver has requested the finished batches that the rank holds, or (rank 0) the maximum number of batches is in flight.
    Downstream,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traffic {
    pub(crate) sent_batches: u64,
    pub(crate) sent_bytes: u64,
    pub(crate) received_batches: u64,
    pub(crate) received_bytes: u64,
    /// Number of batches that the rank forwarded to another rank, because the mapping had changed since they were sent.
    pub(crate) forwarded: u64,
    pub(crate) handed_over: u64,
    /// Number of times that the mapping changed while a serial stage was migrating from or to this rank.
    pub(crate) overtaken: u64,
}

//! Messages between the ranks of a pipeline.
//!
//! Rank 0 sends [`Directive`]s to the other ranks and receives [`Report`]s from them. All ranks exchange batches and their requests for them as
//! [`StreamMessage`]s.

pub(crate) mod batch;
#[cfg(test)]
mod golden_tests;

use std::convert::Infallible;
use std::time::Duration;

use armature_planner::Link;
use serde::{Deserialize, Serialize};

use super::machine::batch::{Batch, SavedStage};
use super::machine::sequence_number::SequenceNumber;
use super::machine::table::Table;
use super::metrics::Measurements;
use super::stats::RankReport;
use crate::balance::probe::Speed;
use crate::comm::message::messages;

messages! {
    "the pipeline":
    pub(crate) enum Received;
    pub(crate) enum Tag {}
    pub(crate) enum Directive {
        Prepare(prepare: Prepare) = 16,
        /// All ranks are ready: the receiver switches to the mapping with the number `epoch`.
        Switch { epoch: u32 } = 28,
        /// The receiver measures its speed with a short computation and reports it.
        MeasureSpeed = 26,
        /// The stream has ended: the receiver sends its report about the whole run.
        Finish = 23,
    }
    pub(crate) enum Report {
        Ready(ready: Ready) = 17,
        Measurements(measurements: Measurements) = 29,
        Speed(speed: Speed) = 27,
        /// Report of the rank about the whole run, at its end.
        Total(report: RankReport) = 24,
    }
    /// Messages between any two ranks. Each contains the number (epoch) of the mapping that its sender uses.
    pub(crate) enum StreamMessage<B: Infallible => Arrived> {
        Batch(batch: B) = 18 raw,
        /// Request for batches, from a rank that runs a replicated group of stages to the rank that dispatches batches to the group.
        Request {
            epoch: u32,
            edge: u32,
            batches: u32,
            /// Number of batches that the sender of the request requested before and has not started.
            held: u32,
            /// Service time of the sender of the request per item, in nanoseconds; 0 if it is unknown.
            service_time: u64,
            /// Standard deviation of the service time over items, in nanoseconds.
            deviation: u64,
        } = 19,
        /// Offer of a finished batch, from the rank that holds it to the rank that dispatches batches to the next group of stages.
        Offer {
            epoch: u32,
            edge: u32,
            number: SequenceNumber,
            items: u32,
            /// Number of source items that follow this batch, if it is known.
            behind: Option<u64>,
        } = 20,
        /// Assignment of a batch to a receiver, sent by the dispatcher to the sender of the batch.
        Assign { epoch: u32, edge: u32, number: SequenceNumber, receiver: u32 } = 21,
        /// Report to rank 0 that batches wait for an older one at a serial stage or at the sink.
        OutOfOrder {
            epoch: u32,
            edge: u32,
            batches: u32,
            /// Total size of the waiting batches in bytes. Each batch counts with the largest size that it has had between two groups of consecutive
            /// stages.
            bytes: u64,
        } = 30,
        StageToken(token: StageToken) = 22,
        WindowRequest(request: WindowRequest) = 31,
        Grant(grant: Grant) = 32,
        WindowReturn(back: WindowReturn) = 33,
    }
}

/// Received batch, with the size and the time of sending of the message in which it arrived.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) epoch: u32,
    pub(crate) batch: Batch,
    pub(crate) bytes: usize,
    pub(crate) sent: Option<Duration>,
}

impl StreamMessage {
    pub(crate) fn epoch(&self) -> u32 {
        match self {
            StreamMessage::Batch(batch) => batch.epoch,
            StreamMessage::Request { epoch, .. }
            | StreamMessage::Offer { epoch, .. }
            | StreamMessage::Assign { epoch, .. }
            | StreamMessage::OutOfOrder { epoch, .. } => *epoch,
            StreamMessage::StageToken(token) => token.epoch,
            StreamMessage::WindowRequest(request) => request.epoch,
            StreamMessage::Grant(grant) => grant.epoch,
            StreamMessage::WindowReturn(back) => back.epoch,
        }
    }
}

/// Directive to prepare a mapping: the receiver creates the stages that the mapping assigns to it, while the stream continues, and reports when they
/// are ready.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) table: Table,
    /// Number of batches between any two stages whose encoded size the receiver measures.
    pub(crate) measured_batches: usize,
    /// Time since the start of the run by rank 0's clock, from which the receiver computes the times in its event log.
    pub(crate) elapsed: Duration,
    /// Interval at which the receiver reports measurements to rank 0; `None` if rank 0 does not use them.
    pub(crate) measure_every: Option<Duration>,
    /// Saved states of the serial stages, if this is the first mapping of a job that continues from a snapshot.
    pub(crate) saved: Vec<SavedStage>,
    /// Links into the receiver, by sender, as measured at the start, in the form of [`equal_runs`](super::links::equal_runs); empty if links are not
    /// monitored. Without monitoring, batches carry no time of sending.
    pub(crate) links: Vec<(usize, Link)>,
}

/// Report that a rank has created the stages that the next mapping assigns to it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) epoch: u32,
    /// Serial stages on the sender of the report that can migrate to another rank.
    pub(crate) movable: Vec<usize>,
    pub(crate) warm_up: Vec<(usize, Duration)>,
}

/// Message with a serial stage that migrates: its saved state, and the sequence number of its next batch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct StageToken {
    pub(crate) epoch: u32,
    pub(crate) stage: u32,
    pub(crate) next: SequenceNumber,
    pub(crate) state: Vec<u8>,
}

/// Request to rank 0 for permission to make further parts of a stage's output for a batch; the first parts have been sent already.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WindowRequest {
    pub(crate) epoch: u32,
    /// Sequence number of the first part of the stage's output for which permission is requested.
    pub(crate) first: SequenceNumber,
    pub(crate) pieces: u64,
}

/// Permission from rank 0 to make further parts of a stage's output for a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) epoch: u32,
    /// Sequence number of the batch for which the stage makes the output.
    pub(crate) whole: SequenceNumber,
    pub(crate) pieces: u64,
    /// Maximum number of items in a part of the stage's output.
    pub(crate) items: u32,
}

/// Return of unused permission to make further parts of a stage's output for a batch: the output is complete.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct WindowReturn {
    pub(crate) epoch: u32,
    pub(crate) whole: SequenceNumber,
    pub(crate) pieces: u64,
}

//! Messages of a farm: [`ToMaster`] from workers, and [`ToWorker`] from the master.
//!
//! A sub-master receives both kinds: it is a worker of the master, and the master of its members.
//!
//! Chunks and results carry data. The computing thread therefore encodes results itself ([`encode_result`]), and the master makes frames of
//! chunks ([`encode_chunk`]); neither copies the output of the codec.

pub(super) mod aggregate;
mod chunk;
mod incumbent;

use std::convert::Infallible;
use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use chunk::{ChunkHeader, Entry, Payload, ResultHeader, Times, encode_chunk, encode_result};
pub(super) use incumbent::{carries_incumbent, with_incumbent, without_incumbent};

use super::state::LastActivity;
use super::summary::RankReport;
use crate::comm::message::messages;
use crate::rank::flight_recorder::FlightRecordLocation;

messages! {
    "a farm":
    /// Message received by a rank other than 0: from its master, or from a current or former member.
    pub(crate) enum Received;
    /// Tag of a farm's message on the wire.
    pub(super) enum Tag {
        /// Message that carries only the incumbent.
        Incumbent = 43,
    }
    /// Message to the master, or from a member to its sub-master.
    pub(crate) enum ToMaster<R: Infallible => Entry> {
        /// The worker has been created.
        Join(join: Join) = 34,
        /// Result of a chunk, as its worker has encoded it.
        Result(result: R) = 33 raw,
        /// Results of a sub-master's members.
        Results(entries: Vec<Entry>) = 40 raw,
        /// The worker has been in this task for longer than the user allows.
        TimedOut {
            /// Number of the task.
            task: u64,
        } = 35,
        /// A sub-master has lost a member.
        Lost(lost: Lost) = 41,
        /// A sub-master has no members left and runs tasks itself from now on.
        Retired = 42,
        /// The worker leaves and reports its work.
        Report(report: RankReport) = 24,
    }
    /// Message from the master, or from a sub-master to its members.
    pub(crate) enum ToWorker {
        /// Tasks to run.
        Chunk(header: ChunkHeader, tasks: Payload) = 32 raw,
        /// Chunks for the members of a sub-master.
        Chunks {
            /// Number of chunks that a member may hold in addition to the running one.
            ahead: u32,
            chunks: Vec<(ChunkHeader, Payload)>,
        } = 39 raw,
        /// The worker is parked if true, and woken if false.
        Park(parked: bool) = 36,
        /// The worker becomes a sub-master.
        Lead(lead: Lead) = 37,
        /// The sender is the worker's master from now on.
        Attach(attach: Attach) = 38,
        /// A sub-master has no members any more, because the run ends.
        Dissolve = 44,
        /// The run has ended.
        Finish = 23,
    }
}

/// Message of a worker that has joined the farm and is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    /// Time for the creation of the worker.
    pub(crate) warm_up: Duration,
    /// Location of the worker's flight record, if it leaves one.
    pub(crate) flight_recorder: Option<FlightRecordLocation>,
}

/// State of a rank that computes, in its heartbeats to its master.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Number of the current task, or of the first task of its chunk if tasks are tiny. It is `u64::MAX` if the number is not known.
    pub(crate) task: Option<u64>,
    /// Number of chunks on the rank that are not begun.
    pub(crate) waiting: u32,
    /// Thread of the user code, which determines whether user code can delay heartbeats.
    pub(crate) mode: ExecutionMode,
}

/// Thread on which user code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecutionMode {
    /// A compute thread.
    OnThread,
    /// The communicating thread, because the last chunks were short. The next chunk may be long nevertheless.
    Interleaved,
    /// The communicating thread, however long tasks are, because the user has chosen it.
    Inline,
}

/// Order to become a sub-master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// Ranks that become members of the sub-master, with true for those that have joined the farm.
    pub(crate) members: Vec<(usize, bool)>,
    /// Attach order for the members.
    pub(crate) order: Attach,
}

/// Order to work for the sender. The master numbers attach orders; an older order that arrives late is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attach {
    pub(crate) number: u32,
    /// Dead sub-master that the sender replaces.
    pub(crate) instead_of: Option<usize>,
}

/// Loss of a member, as reported by its sub-master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) rank: usize,
    pub(crate) why: String,
    /// Numbers of the member's chunks, which return to the master.
    pub(crate) chunks: Vec<u64>,
    pub(crate) last_activity: LastActivity,
}

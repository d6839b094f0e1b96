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
    /// Message that a rank other than 0 has received: from its master, or, as a sub-master, from a current or former member.
    pub(crate) enum Received;
    pub(super) enum Tag {
        /// Message that carries the incumbent (best value known so far) and nothing else.
        Incumbent = 43,
    }
    /// Message from a worker to its master: to rank 0, or from a member to its sub-master.
    pub(crate) enum ToMaster<R: Infallible => Entry> {
        /// The user's worker is created on the sending rank, which joins the farm.
        Join(join: Join) = 34,
        Result(result: R) = 33 raw,
        Results(entries: Vec<Entry>) = 40 raw,
        /// The sending rank has been in one task for longer than the time limit of tasks.
        TimedOut {
            task: u64,
        } = 35,
        /// A member of the sending sub-master is dead.
        Lost(lost: Lost) = 41,
        /// The sending sub-master has no members left and runs tasks itself from now on.
        Retired = 42,
        /// The sending worker leaves the farm; the message contains statistics of its work.
        Report(report: RankReport) = 24,
    }
    /// Message from the master, or from a sub-master to its members.
    pub(crate) enum ToWorker {
        Chunk(header: ChunkHeader, tasks: Payload) = 32 raw,
        /// Chunks for the members of the receiving sub-master.
        Chunks {
            /// Number of chunks that each member may hold in addition to the one that it runs.
            ahead: u32,
            /// Number of tasks above which a member gets no further chunk.
            most_tasks: u32,
            chunks: Vec<(ChunkHeader, Payload)>,
        } = 39 raw,
        /// If true, the receiving worker is parked and gets no more chunks; if false, it gets chunks again.
        Park(parked: bool) = 36,
        Lead(lead: Lead) = 37,
        /// The sending rank is the master of the receiving worker from now on.
        Attach(attach: Attach) = 38,
        /// To a sub-master at the end of the run: rank 0 itself now receives the messages of the sub-master's former members.
        Dissolve = 44,
        /// The run has ended, and the receiving rank may leave.
        Finish = 23,
    }
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    pub(crate) warm_up: Duration,
    /// Location of the rank's flight record (its last activity, in memory that outlives the rank), if there is one.
    pub(crate) flight_recorder: Option<FlightRecordLocation>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// Number of the task that the worker runs, or of the first task of its chunk if tasks are tiny; `None` if it runs none. The value `u64::MAX`
    /// means that the number is not known.
    pub(crate) task: Option<u64>,
    /// Number of chunks that the rank holds and has not begun.
    pub(crate) waiting: u32,
    /// Thread on which tasks run. It determines whether a long task can delay heartbeats.
    pub(crate) mode: ExecutionMode,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecutionMode {
    /// Tasks run on a compute thread, so that heartbeats are sent while a task runs.
    OnThread,
    /// Tasks run on the communicating thread, because the last chunks were short. The next chunk may be long nevertheless.
    Interleaved,
    /// Tasks run on the communicating thread, however long they are, because the user has chosen it.
    Inline,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// Ranks that become members of the sub-master; true for those that have joined the farm.
    pub(crate) members: Vec<(usize, bool)>,
    /// Order to be forwarded to the members of the new sub-master: they get their chunks from it.
    pub(crate) order: Attach,
}

/// Order that the receiving rank gets its chunks from the sending rank from now on. Rank 0 numbers these orders. A rank ignores an order with a lower
/// number than that of its last order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attach {
    pub(crate) number: u32,
    /// Dead sub-master that sent the receiving rank its chunks before, if there is one.
    pub(crate) instead_of: Option<usize>,
}

/// Loss of a sub-master's member, which the sub-master reports to the master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) rank: usize,
    pub(crate) why: String,
    /// Numbers of the chunks that the lost member held; rank 0 dispatches their tasks again.
    pub(crate) chunks: Vec<u64>,
    pub(crate) last_activity: LastActivity,
}

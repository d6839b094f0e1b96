//! Messages between the ranks of a workflow.

use serde::{Deserialize, Serialize};

use super::files::{Piece, PieceRequest};
use super::summary::RankReport;
use super::value::Value;
use crate::balance::probe::Speed;
use crate::comm::message::messages;
use crate::rank::flight_recorder::FlightRecordLocation;

/// Maximum number of tasks announced to a rank at a time, and number of orders whose inputs a rank requests early. With a smaller number,
/// inputs arrive late on a rank that reads from many others; with a larger one, values occupy memory long before they are read.
pub(super) const ANNOUNCED: usize = 64;

/// Task that a rank has to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) task: usize,
    /// Number of earlier failed tries.
    pub(super) attempt: u32,
    /// Numbers of earlier tries that exceeded a limit.
    pub(super) exceeded: Exceeded,
    /// Place in the plan, if there is one. The task does not begin before the orders of its rank with a smaller place.
    pub(super) place: Option<usize>,
    /// True for an announcement: the inputs may arrive, but the task must not begin before it is ordered.
    pub(super) is_announced: bool,
    /// True if a rank may have died in the task. The rank then reports the beginning of the task.
    pub(super) is_suspect: bool,
    /// Rank that has or will have each input, in the order of the parents.
    pub(super) sources: Vec<usize>,
}

/// Numbers of tries of a task that exceeded their memory limit, and that exceeded their time limit. Both are one number on the wire.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Exceeded(u32);

impl Exceeded {
    /// Number of bits for tries that exceeded their memory limit.
    const BITS: u32 = 16;

    pub(super) fn memory(self) -> u32 {
        self.0 & ((1 << Exceeded::BITS) - 1)
    }

    pub(super) fn time(self) -> u32 {
        self.0 >> Exceeded::BITS
    }

    /// Counts a failed try. Further tries than the bits can count change nothing.
    pub(super) fn count(&mut self, reason: Reason) {
        let most = (1 << Exceeded::BITS) - 1;
        match reason {
            Reason::MemoryLimit if self.memory() < most => self.0 += 1,
            Reason::TimeLimit if self.time() < most => self.0 += 1 << Exceeded::BITS,
            _ => {}
        }
    }
}

/// Orders of the master for a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) orders: Vec<Order>,
    /// Values whose source has changed: task, new source.
    pub(super) changed_sources: Vec<(usize, usize)>,
    /// Ordered or announced tasks that must not run.
    pub(super) cancelled: Vec<usize>,
    /// Orders that the rank has to return if they have not begun.
    pub(super) recalled: Vec<usize>,
    /// Values that are not needed any more.
    pub(super) dropped: Vec<usize>,
}

impl Orders {
    /// Removes the order of a task if it has not been sent yet. Returns true if it was removed.
    pub(super) fn forget(&mut self, task: usize) -> bool {
        let at = self.orders.iter().position(|order| order.task == task);
        at.map(|at| self.orders.remove(at)).is_some()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
            && self.changed_sources.is_empty()
            && self.cancelled.is_empty()
            && self.recalled.is_empty()
            && self.dropped.is_empty()
    }
}

/// Completed task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// Size of its value in bytes.
    pub(super) bytes: u64,
    /// Run time in nanoseconds.
    pub(super) took: u64,
    /// Peak memory of its processes in bytes, for a command.
    pub(super) peak_memory: Option<u64>,
}

/// Reason for the failure of a try.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reason {
    /// User code returned an error.
    Error,
    /// User code panicked.
    Panic,
    /// The command exceeded its memory limit, or was killed because memory was short. The next try gets more memory.
    MemoryLimit,
    /// The task needs more memory than a rank may hold, and was not begun.
    Memory,
    /// The task exceeded its time limit. The next try of a command gets more time.
    TimeLimit,
}

/// Failed try.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) task: usize,
    pub(super) attempt: u32,
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// Results of a rank since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) done: Vec<Done>,
    pub(super) failed: Vec<Failure>,
    /// Recalled orders that the rank returns.
    pub(super) returned: Vec<usize>,
}

/// Ended try of a command, if files are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TryEnded {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// Encoded [`Ended`](armature_commands::Ended): exit status and resource use.
    pub(super) ended: Vec<u8>,
    /// Output file that cannot be sent, and the reason.
    pub(super) fault: Option<String>,
}

/// Values of tasks, with a size in bytes for each.
pub(super) type Sizes = Vec<(usize, u64)>;

messages! {
    "a workflow";
    pub(super) enum Tag {}
    /// Message of a workflow.
    pub(super) enum Content {
        /// Orders, from the master.
        Orders(orders: Orders) = 32,
        /// End of the run, from the master.
        End = 33,
        /// Request to a rank that has or will have values: the tasks, and for each the maximum size of a value that may be sent without a
        /// further request.
        Want(values: Sizes) = 34,
        /// Answer to a request for larger values: task, size.
        Offer(values: Sizes) = 35,
        /// Value of a task.
        Value(task: usize, value: Value) = 36 raw,
        /// Results, to the master.
        Report(report: Report) = 37,
        /// Work of the rank, to the master, after the end of the run.
        Final(report: RankReport) = 38,
        /// Request to measure the rank's speed, from the master, before the first task.
        MeasureSpeed = 39,
        /// Speed of the rank, to the master.
        Speed(speed: Speed) = 40,
        /// Arrival of a rank, to the master, before all its other messages; with the location of its flight record, if it has one.
        Join(flight_recorder: Option<FlightRecordLocation>) = 47,
        /// Beginning of a task in which ranks may have died, to the master.
        Started(task: usize) = 48,
        /// Death of this rank, from the master.
        Lost(rank: usize) = 41,
        /// Answer to [`Want`](Content::Want) if the value has been dropped because it was not needed any more.
        Dropped(task: usize) = 42,
        /// Request for a piece of a file, to a rank that has the file.
        PieceRequest(request: PieceRequest) = 43,
        /// Answer to [`PieceRequest`](Content::PieceRequest).
        Piece(piece: Piece) = 44 raw,
        /// End of a command, to rank 0, which can fetch its outputs now.
        Ended(ended: TryEnded) = 45,
        /// Answer to [`Ended`](Content::Ended) when rank 0 has the outputs: the task, and the reason if the try has failed.
        Kept(task: usize, failure: Option<(Reason, String)>) = 46,
    }
}

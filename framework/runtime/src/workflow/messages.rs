//! Messages between the ranks of a workflow.

use serde::{Deserialize, Serialize};

use super::files::{FilePiece, PieceRequest};
use super::summary::RankReport;
use super::value::Value;
use crate::balance::probe::Speed;
use crate::comm::message::messages;
use crate::rank::flight_recorder::FlightRecordLocation;

/// Maximum number of tasks that are announced to a rank at a time (an announcement says that the rank will run the task later), and number of tasks
/// whose inputs a rank requests before it can run them. With a smaller number, inputs arrive late on a rank that reads from many others; with a
/// larger one, values occupy memory long before they are read.
pub(super) const ANNOUNCED: usize = 64;

/// Order of the master to a rank to run a task, or announcement that the rank will probably run the task later.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) task: usize,
    /// Number of earlier failed tries of the task.
    pub(super) attempt: u32,
    /// Number of earlier tries of the task that exceeded their memory limit, and number of those that exceeded their time limit.
    pub(super) exceeded: Exceeded,
    /// Position of the task in the sequence of the plan, if there is a plan. The task begins after all tasks dispatched to its rank that have
    /// smaller positions.
    pub(super) place: Option<usize>,
    /// True for an announcement: the rank may fetch the inputs, but must not begin the task before the master orders it.
    pub(super) is_announced: bool,
    /// True if a rank may have died because of this task. Another rank that runs the task reports to the master that the task has begun.
    pub(super) is_suspect: bool,
    /// For each input, in the order of the task's parents: rank from which the input is read, when it has been computed.
    pub(super) sources: Vec<usize>,
}

/// Number of tries of a task that exceeded their memory limit, and number of those that exceeded their time limit. The two are sent as one number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Exceeded(u32);

impl Exceeded {
    /// Number of low bits that count tries which exceeded the memory limit. One number contains both counts: its other bits count tries which
    /// exceeded the time limit.
    const BITS: u32 = 16;

    pub(super) fn memory(self) -> u32 {
        self.0 & ((1 << Exceeded::BITS) - 1)
    }

    pub(super) fn time(self) -> u32 {
        self.0 >> Exceeded::BITS
    }

    /// Counts a try that failed because it exceeded a limit. A number that does not fit into its bits stays at its maximum.
    pub(super) fn count(&mut self, reason: Reason) {
        let most = (1 << Exceeded::BITS) - 1;
        match reason {
            Reason::MemoryLimit if self.memory() < most => self.0 += 1,
            Reason::TimeLimit if self.time() < most => self.0 += 1 << Exceeded::BITS,
            _ => {}
        }
    }
}

/// Message of the master to a rank about the tasks that the rank has to run, and about their inputs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) orders: Vec<Order>,
    /// Tasks whose values must be read from another rank than stated before, each with that rank.
    pub(super) changed_sources: Vec<(usize, usize)>,
    /// Tasks that the rank must not run, although they were dispatched or announced to it.
    pub(super) cancelled: Vec<usize>,
    /// Dispatched tasks that the rank must return to the master unless they have begun.
    pub(super) recalled: Vec<usize>,
    /// Tasks whose values no task needs any more.
    pub(super) dropped: Vec<usize>,
}

impl Orders {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TaskDone {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// Size in bytes of the value of the task.
    pub(super) bytes: u64,
    /// Run time of the task in nanoseconds.
    pub(super) took: u64,
    /// For a command: peak memory of its processes in bytes.
    pub(super) peak_memory: Option<u64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reason {
    Error,
    Panic,
    /// The command exceeded its memory limit, or was killed because memory was short. The next try gets more memory.
    MemoryLimit,
    /// The task needs more memory than the rank may use, so the rank has not begun it.
    Memory,
    /// The task exceeded its time limit. The next try of a command gets more time.
    TimeLimit,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) task: usize,
    pub(super) attempt: u32,
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// Tasks that a rank has completed, failed or returned since its last report to the master.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) done: Vec<TaskDone>,
    pub(super) failed: Vec<Failure>,
    /// Tasks that the rank returns to the master, which has recalled them, because they have not begun.
    pub(super) returned: Vec<usize>,
}

/// Message of a rank that a command has ended, in a run in which files are sent between ranks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TryEnded {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// Encoded [`Ended`](armature_commands::Ended): exit status and resource use.
    pub(super) ended: Vec<u8>,
    /// Name of an output file that cannot be sent to rank 0, with the reason.
    pub(super) fault: Option<String>,
}

/// Tasks, each with a size in bytes: that of its value or, in a request, the maximum size up to which the value may be sent without a further
/// request.
pub(super) type Sizes = Vec<(usize, u64)>;

messages! {
    "a workflow";
    pub(super) enum Tag {}
    /// Message between two ranks of a workflow.
    pub(super) enum Content {
        /// Tasks that the master dispatches to a rank, announces, recalls or cancels, and changes of the ranks from which their inputs are read.
        Orders(orders: Orders) = 32,
        /// Message of the master to a rank that all tasks have ended.
        End = 33,
        /// Request for the values of tasks, to the rank that has or will have them. For each value, it contains the maximum size up to which the
        /// value may be sent without a further request.
        Want(values: Sizes) = 34,
        /// Reply to [`Want`](Content::Want) for values that are larger than allowed: each task with the size of its value. The receiver reserves
        /// memory and requests the value again.
        Offer(values: Sizes) = 35,
        /// Value of a task, from the rank that has it to a rank that reads it.
        Value(task: usize, value: Value) = 36 raw,
        /// Completed tasks and failed tries of a rank, to the master.
        Report(report: Report) = 37,
        /// Statistics of the rank's work, to the master, after the end of the run.
        Final(report: RankReport) = 38,
        /// Request of the master that a rank measures its speed, before the first task.
        MeasureSpeed = 39,
        /// Measured speed of the rank, to the master.
        Speed(speed: Speed) = 40,
        /// First message of a rank to the master. It contains the location of the rank's flight record, if there is one: its last activity, in
        /// memory that the master can read if the rank dies.
        Join(flight_recorder: Option<FlightRecordLocation>) = 47,
        /// Message to the master that the rank has begun a task which is suspected of having killed ranks that ran it. If this rank dies too, the
        /// master knows the cause.
        Started(task: usize) = 48,
        /// Message of the master to the other ranks that a rank has died.
        Lost(rank: usize) = 41,
        /// Reply to [`Want`](Content::Want) if the value was dropped because no task needed it any more.
        Dropped(task: usize) = 42,
        /// Request for a piece of a file, to a rank that has the file.
        PieceRequest(request: PieceRequest) = 43,
        /// Reply to [`PieceRequest`](Content::PieceRequest): the piece, or the reason why it cannot be sent.
        FilePiece(piece: FilePiece) = 44 raw,
        /// Message to rank 0 that a command has ended, so that rank 0 can fetch its output files.
        Ended(ended: TryEnded) = 45,
        /// Reply to [`Ended`](Content::Ended): rank 0 has the output files of the task, or the try has failed for the stated reason.
        Kept(task: usize, failure: Option<(Reason, String)>) = 46,
    }
}

//! Messages between the ranks of a workflow, and their encoding in frames.

use serde::{Deserialize, Serialize};

use super::files::{Ask, Piece};
use super::summary::RankReport;
use super::value::Value;
use crate::balance::probe::Speed;
use crate::comm::Frame;
use crate::comm::message::{Message, frame_header, tags};
use crate::error::Result;
use crate::rank::protocol::Outgoing;
use crate::rank::trail::TrailLocation;
use crate::wire;

tags! {
    "a workflow";
    pub(super) enum Tag {
        Orders = 32,
        End = 33,
        Want = 34,
        Offer = 35,
        Value = 36,
        Report = 37,
        Final = 38,
        MeasureSpeed = 39,
        Speed = 40,
        Lost = 41,
        Gone = 42,
        Ask = 43,
        Piece = 44,
        Ended = 45,
        Kept = 46,
        Join = 47,
        Begun = 48,
    }
}

/// Maximum number of tasks announced to a rank at a time, and number of orders whose inputs a rank requests early. With a smaller number,
/// inputs arrive late on a rank that reads from many others; with a larger one, values occupy memory long before they are read.
pub(super) const ANNOUNCED: usize = 64;

/// Task that a rank has to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) task: usize,
    /// Number of earlier failed tries.
    pub(super) attempt: u32,
    /// Number of earlier tries that exceeded their memory limit.
    pub(super) exceeded: u32,
    /// Place in the plan, if there is one. The task does not begin before the orders of its rank with a smaller place.
    pub(super) place: Option<usize>,
    /// True for an announcement: the inputs may arrive, but the task must not begin before it is ordered.
    pub(super) is_announced: bool,
    /// True if a rank may have died in the task. The rank then reports the beginning of the task.
    pub(super) is_suspect: bool,
    /// Rank that has or will have each input, in the order of the parents.
    pub(super) sources: Vec<usize>,
}

/// Orders of the master for a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) orders: Vec<Order>,
    /// Values whose source has changed: task, new source.
    pub(super) moved: Vec<(usize, usize)>,
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
            && self.moved.is_empty()
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
    /// The command exceeded its memory limit. The next try has a higher limit.
    MemoryLimit,
    /// The task needs more memory than a rank may hold, and was not begun.
    Memory,
    /// The task exceeded its time limit.
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

/// Message of a workflow.
#[derive(Debug)]
pub(super) enum Content {
    /// Orders, from the master.
    Orders(Orders),
    /// End of the run, from the master.
    End,
    /// Request to a rank that has or will have values: the tasks, and for each the maximum size of a value that may be sent without a
    /// further request.
    Want(Sizes),
    /// Answer to a request for larger values: task, size.
    Offer(Sizes),
    /// Value of a task.
    Value(usize, Value),
    /// Results, to the master.
    Report(Report),
    /// Work of the rank, to the master, after the end of the run.
    Final(RankReport),
    /// Request to measure the rank's speed, from the master, before the first task.
    MeasureSpeed,
    /// Speed of the rank, to the master.
    Speed(Speed),
    /// Arrival of a rank, to the master, before all its other messages; with the location of its trail, if it has one.
    Join(Option<TrailLocation>),
    /// Beginning of a task in which ranks may have died, to the master.
    Begun(usize),
    /// Death of this rank, from the master.
    Lost(usize),
    /// Answer to [`Want`](Content::Want) if the value has been dropped because it was not needed any more.
    Gone(usize),
    /// Request for a piece of a file, to a rank that has the file.
    Ask(Ask),
    /// Answer to [`Ask`](Content::Ask).
    Piece(Piece),
    /// End of a command, to rank 0, which can fetch its outputs now.
    Ended(TryEnded),
    /// Answer to [`Ended`](Content::Ended) when rank 0 has the outputs: the task, and the reason if the try has failed.
    Kept(usize, Option<(Reason, String)>),
}

impl Content {
    /// Sends the message to rank `to`.
    pub(super) fn send(self, to: usize, out: &mut Outgoing<'_>) -> Result<()> {
        out.send(to, self.encode(out.run())?)
    }

    /// Encodes the message for run number `run`.
    pub(super) fn encode(self, run: u32) -> Result<Frame> {
        match self {
            Content::Orders(orders) => encode(run, Tag::Orders, &orders),
            Content::End => encode(run, Tag::End, &()),
            Content::Want(values) => encode(run, Tag::Want, &values),
            Content::Offer(values) => encode(run, Tag::Offer, &values),
            Content::Value(task, value) => Ok(value.into_frame(run, task)),
            Content::Report(report) => encode(run, Tag::Report, &report),
            Content::Final(report) => encode(run, Tag::Final, &report),
            Content::MeasureSpeed => encode(run, Tag::MeasureSpeed, &()),
            Content::Speed(speed) => encode(run, Tag::Speed, &speed),
            Content::Join(trail) => encode(run, Tag::Join, &trail),
            Content::Begun(task) => encode(run, Tag::Begun, &task),
            Content::Lost(rank) => encode(run, Tag::Lost, &rank),
            Content::Gone(task) => encode(run, Tag::Gone, &task),
            Content::Ask(ask) => encode(run, Tag::Ask, &ask),
            Content::Piece(piece) => piece.into_frame(run),
            Content::Ended(ended) => encode(run, Tag::Ended, &ended),
            Content::Kept(task, failure) => encode(run, Tag::Kept, &(task, failure)),
        }
    }

    /// Decodes a message.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if the message is not one of a workflow, or is damaged.
    pub(super) fn decode(message: Message) -> Result<Self> {
        let tag = message.tag()?;
        let body = message.body.clone();
        Ok(match tag {
            Tag::Orders => Content::Orders(wire::from_bytes(&body)?),
            Tag::End => Content::End,
            Tag::Want => Content::Want(wire::from_bytes(&body)?),
            Tag::Offer => Content::Offer(wire::from_bytes(&body)?),
            Tag::Value => {
                let (task, value) = Value::from_frame(body, message.parts)?;
                Content::Value(task, value)
            }
            Tag::Report => Content::Report(wire::from_bytes(&body)?),
            Tag::Final => Content::Final(wire::from_bytes(&body)?),
            Tag::MeasureSpeed => Content::MeasureSpeed,
            Tag::Speed => Content::Speed(wire::from_bytes(&body)?),
            Tag::Join => Content::Join(wire::from_bytes(&body)?),
            Tag::Begun => Content::Begun(wire::from_bytes(&body)?),
            Tag::Lost => Content::Lost(wire::from_bytes(&body)?),
            Tag::Gone => Content::Gone(wire::from_bytes(&body)?),
            Tag::Ask => Content::Ask(wire::from_bytes(&body)?),
            Tag::Piece => Content::Piece(Piece::from_message(message)?),
            Tag::Ended => Content::Ended(wire::from_bytes(&body)?),
            Tag::Kept => {
                let (task, failure) = wire::from_bytes(&body)?;
                Content::Kept(task, failure)
            }
        })
    }
}

fn encode(run: u32, tag: Tag, content: &impl Serialize) -> Result<Frame> {
    let mut head = frame_header(run, tag).to_vec();
    head.extend_from_slice(&wire::to_bytes(content)?);
    Ok(Frame::new(head))
}

//! What ranks of a workflow send each other, and how it lies in frames.

use serde::{Deserialize, Serialize};

use super::files::{Ask, Piece};
use super::summary::RankReport;
use super::value::Value;
use crate::balance::probe::Speed;
use crate::comm::Frame;
use crate::comm::message::{Message, frame_header, tags};
use crate::error::Result;
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

/// Tasks that are announced to a rank at once, and orders that it looks at for inputs that may come. With fewer, inputs come late where a rank reads
/// from many others; with more, the values that come take memory long before they are read.
pub(super) const ANNOUNCED: usize = 64;

/// A task that a rank is to run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Order {
    pub(super) task: usize,
    /// How often it has failed before.
    pub(super) attempt: u32,
    /// How often it has held more memory than it may.
    pub(super) exceeded: u32,
    /// Where there is a plan: it does not begin before the orders of its rank that have a smaller place.
    pub(super) place: Option<usize>,
    /// It is not to be begun before it is ordered once more: until then its inputs may come.
    pub(super) is_announced: bool,
    /// Ranks may have died in it: the rank says so when it begins the task.
    pub(super) is_suspect: bool,
    /// For each of its inputs, in the order of its parents, the rank that has it or will have it.
    pub(super) sources: Vec<usize>,
}

/// What the master wants of a rank.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Orders {
    pub(super) orders: Vec<Order>,
    /// Values that come from another rank than was said: task, rank.
    pub(super) moved: Vec<(usize, usize)>,
    /// Tasks that were ordered and are not to be run.
    pub(super) cancelled: Vec<usize>,
    /// Orders that are to be given back if they have not begun.
    pub(super) recalled: Vec<usize>,
    /// Values that nobody needs any more.
    pub(super) dropped: Vec<usize>,
}

impl Orders {
    /// Drops the order of a task, if it is among these and so nobody has got it. Returns whether it was.
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

/// A task that has been done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Done {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// Size of what it gives.
    pub(super) bytes: u64,
    /// Nanoseconds.
    pub(super) took: u64,
    /// Most memory that its processes held, in bytes, if it was a command.
    pub(super) peak_memory: Option<u64>,
}

/// Why a try has failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Reason {
    /// User code has returned an error.
    Error,
    /// User code has panicked.
    Panic,
    /// It has held more memory than it may, and is tried again with more.
    MemoryLimit,
    /// It needs more memory than a rank may have, and was not begun.
    Memory,
    /// It has taken longer than it may.
    TimeLimit,
}

/// A try that has failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Failure {
    pub(super) task: usize,
    pub(super) attempt: u32,
    pub(super) reason: Reason,
    pub(super) message: String,
}

/// What a rank has done since its last report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Report {
    pub(super) done: Vec<Done>,
    pub(super) failed: Vec<Failure>,
    /// Orders that it has given back.
    pub(super) returned: Vec<usize>,
}

/// A try of a command that has ended, where files are sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TryEnded {
    pub(super) task: usize,
    pub(super) attempt: u32,
    /// How, and what it used: the bytes of an [`Ended`](armature_commands::Ended).
    pub(super) ended: Vec<u8>,
    /// Which of its files cannot be sent, and why.
    pub(super) fault: Option<String>,
}

/// A message of a workflow.
#[derive(Debug)]
pub(super) enum Content {
    /// From the master.
    Orders(Orders),
    /// From the master: all is done.
    End,
    /// To who has values or will have them: tasks whose values the sender needs, and how large they may be to be sent at once.
    Want(Vec<(usize, u64)>),
    /// The answer where a value is larger: task, size.
    Offer(Vec<(usize, u64)>),
    /// What a task gives.
    Value(usize, Value),
    /// To the master.
    Report(Report),
    /// To the master, after the end.
    Final(RankReport),
    /// From the master, before anything else: the rank is to say how fast it is.
    MeasureSpeed,
    /// To the master: the answer.
    Speed(Speed),
    /// To the master, before anything else: the rank has come, and leaves a trail there, if it can leave one.
    Join(Option<TrailLocation>),
    /// To the master: a task of which ranks may have died begins.
    Begun(usize),
    /// From the master: this rank has died.
    Lost(usize),
    /// The answer to [`Want`](Content::Want) where nobody needed the value any more.
    Gone(usize),
    /// To who has a file: a piece of it is wanted.
    Ask(Ask),
    /// The answer.
    Piece(Piece),
    /// To rank 0: a command has ended, and what it has written can be fetched.
    Ended(TryEnded),
    /// The answer, when rank 0 has that: a task, and why the try has failed if it has.
    Kept(usize, Option<(Reason, String)>),
}

impl Content {
    /// As a message of run number `run`.
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

    /// Opens a message.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if it is no message of a workflow, or damaged.
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

//! What goes between the ranks of a pipeline, and how it lies on the wire.
//!
//! Rank 0 sends [`Directive`]s to the others and gets [`Report`]s from them; between all ranks go the [`StreamMessage`]s, each of
//! which begins with the epoch of its sender.

pub(crate) mod batch;
#[cfg(test)]
mod golden_tests;

use std::time::Duration;

use armature_planner::Link;
use serde::{Deserialize, Serialize};

use super::machine::batch::Batch;
use super::machine::sequence_number::SequenceNumber;
use super::machine::table::Table;
use super::metrics::Measurements;
use super::stats::RankReport;
use crate::balance::probe::Speed;
use crate::comm::message::{Message, frame_header, tags};
use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

tags! {
    "the pipeline";
    /// Which message it is.
    pub(crate) enum Tag {
        Prepare = 16,
        Ready = 17,
        Batch = 18,
        Request = 19,
        Offer = 20,
        Assign = 21,
        Token = 22,
        Finish = 23,
        Report = 24,
        MeasureSpeed = 26,
        Speed = 27,
        Switch = 28,
        Measurements = 29,
        OutOfOrder = 30,
        AskForRoom = 31,
        Grant = 32,
        GiveBack = 33,
    }
}

/// A message that has come in.
#[derive(Debug)]
pub(crate) enum Received {
    Directive(Directive),
    Report(Report),
    Stream(StreamMessage),
}

/// From rank 0 to another rank.
#[derive(Debug)]
pub(crate) enum Directive {
    Prepare(Prepare),
    Switch(Switch),
    MeasureSpeed,
    /// The stream is over.
    Finish,
}

/// From another rank to rank 0.
#[derive(Debug)]
pub(crate) enum Report {
    Ready(Ready),
    Measurements(Measurements),
    Speed(Speed),
    /// The last one.
    Total(RankReport),
}

/// From any rank to any other.
#[derive(Debug)]
pub(crate) enum StreamMessage {
    Batch(Arrived),
    Request(Request),
    Offer(Offer),
    Assign(Assign),
    OutOfOrder(OutOfOrder),
    Token(Token),
    AskForRoom(AskForRoom),
    Grant(Grant),
    GiveBack(GiveBack),
}

/// A batch that has come in.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) epoch: u32,
    pub(crate) batch: Batch,
    /// Bytes of the message.
    pub(crate) bytes: usize,
    /// When it was sent, by its sender's clock, if it was stamped.
    pub(crate) sent: Option<Duration>,
}

/// What a message with a tag of its own holds, other than a batch.
pub(crate) trait Content: Serialize {
    const TAG: Tag;
}

macro_rules! contents {
    ($($content:ident => $tag:ident),* $(,)?) => {
        $(impl Content for $content {
            const TAG: Tag = Tag::$tag;
        })*
    };
}

contents! {
    Prepare => Prepare, Switch => Switch, MeasureSpeed => MeasureSpeed, Finish => Finish,
    Ready => Ready, Measurements => Measurements, Speed => Speed, RankReport => Report,
    Request => Request, Offer => Offer, Assign => Assign, OutOfOrder => OutOfOrder, Token => Token,
    AskForRoom => AskForRoom, Grant => Grant, GiveBack => GiveBack,
}

/// The head of a message of run number `run`.
pub(crate) fn encode<C: Content>(run: u32, content: &C) -> Result<Vec<u8>> {
    let mut head = frame_header(run, C::TAG).to_vec();
    head.extend_from_slice(&wire::to_bytes(content)?);
    Ok(head)
}

/// A message without data behind its head.
pub(crate) fn frame<C: Content>(run: u32, content: &C) -> Result<Frame> {
    encode(run, content).map(Frame::new)
}

impl Received {
    /// Reads a message with this tag.
    ///
    /// # Errors
    /// If it makes no sense.
    #[inline]
    pub(crate) fn decode(tag: Tag, message: Message) -> Result<Self> {
        let from = message.from;
        Received::read(tag, message).map_err(|e| match e.kind() {
            ErrorKind::Wire => Error::new(ErrorKind::Wire, format!("from rank {from}: {}", e.message())),
            _ => e,
        })
    }

    #[inline]
    fn read(tag: Tag, message: Message) -> Result<Self> {
        let body = &message.body;
        Ok(match tag {
            Tag::Prepare => Received::Directive(Directive::Prepare(wire::from_bytes(body)?)),
            Tag::Switch => Received::Directive(Directive::Switch(wire::from_bytes(body)?)),
            Tag::MeasureSpeed => Received::Directive(Directive::MeasureSpeed),
            Tag::Finish => Received::Directive(Directive::Finish),
            Tag::Ready => Received::Report(Report::Ready(wire::from_bytes(body)?)),
            Tag::Measurements => Received::Report(Report::Measurements(wire::from_bytes(body)?)),
            Tag::Speed => Received::Report(Report::Speed(wire::from_bytes(body)?)),
            Tag::Report => Received::Report(Report::Total(wire::from_bytes(body)?)),
            Tag::Batch => {
                let bytes = body.len() + message.parts.iter().map(Part::len).sum::<usize>();
                let sent = batch::sent(body);
                let (epoch, batch) = Batch::unpack(message.body, message.parts)?;
                Received::Stream(StreamMessage::Batch(Arrived { epoch, batch, bytes, sent }))
            }
            Tag::Request => Received::Stream(StreamMessage::Request(wire::from_bytes(body)?)),
            Tag::Offer => Received::Stream(StreamMessage::Offer(wire::from_bytes(body)?)),
            Tag::Assign => Received::Stream(StreamMessage::Assign(wire::from_bytes(body)?)),
            Tag::OutOfOrder => Received::Stream(StreamMessage::OutOfOrder(wire::from_bytes(body)?)),
            Tag::Token => Received::Stream(StreamMessage::Token(wire::from_bytes(body)?)),
            Tag::AskForRoom => Received::Stream(StreamMessage::AskForRoom(wire::from_bytes(body)?)),
            Tag::Grant => Received::Stream(StreamMessage::Grant(wire::from_bytes(body)?)),
            Tag::GiveBack => Received::Stream(StreamMessage::GiveBack(wire::from_bytes(body)?)),
        })
    }
}

impl StreamMessage {
    /// The epoch of its sender.
    pub(crate) fn epoch(&self) -> u32 {
        match self {
            StreamMessage::Batch(batch) => batch.epoch,
            StreamMessage::Request(request) => request.epoch,
            StreamMessage::Offer(offer) => offer.epoch,
            StreamMessage::Assign(assign) => assign.epoch,
            StreamMessage::OutOfOrder(waiting) => waiting.epoch,
            StreamMessage::Token(token) => token.epoch,
            StreamMessage::AskForRoom(ask) => ask.epoch,
            StreamMessage::Grant(grant) => grant.epoch,
            StreamMessage::GiveBack(back) => back.epoch,
        }
    }
}

/// A mapping is to come: set up what it puts on this rank, and report when that is done. The stream goes on meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) table: Table,
    /// On how many batches of every edge to take the sizes of items.
    pub(crate) weigh: usize,
    /// Time since the run began, by rank 0's clock: the ranks' logs of events begin with it.
    pub(crate) elapsed: Duration,
    /// How often to send measurements; never where nothing is decided by them.
    pub(crate) measure_every: Option<Duration>,
    /// By sender, the links into that rank as they were probed; none where nobody wants to know what traffic shows of
    /// them. Then batches are not stamped either.
    pub(crate) links: Vec<Link>,
}

/// The stages of a mapping are set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) epoch: u32,
    /// Serial stages made here whose state can go on elsewhere.
    pub(crate) movable: Vec<usize>,
    /// What the factories took, by stage.
    pub(crate) warm_up: Vec<(usize, Duration)>,
}

/// All are ready: use the mapping of that epoch from now on.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Switch {
    pub(crate) epoch: u32,
}

/// Run the kernel of the probe, and say how fast it was.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct MeasureSpeed;

/// The stream is over: end, and report.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Finish;

/// A replica has room.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) batches: u32,
    /// Batches that it has asked for before and not begun.
    pub(crate) held: u32,
    /// Nanoseconds that an item keeps the replica busy; 0 if it does not know yet.
    pub(crate) service_time: u64,
    /// The standard deviation of that, from item to item.
    pub(crate) deviation: u64,
}

/// Batches wait at a serial stage for an older one.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OutOfOrder {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) batches: u32,
    /// Of all of them, each at its widest edge so far.
    pub(crate) bytes: u64,
}

/// A sender has a batch to give.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) number: SequenceNumber,
    pub(crate) items: u32,
    /// Items of the stream behind this batch, if the source knew.
    pub(crate) behind: Option<u64>,
}

/// A dispatcher has found a receiver for a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assign {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) number: SequenceNumber,
    pub(crate) receiver: u32,
}

/// A serial stage changes hands: what it remembers, and the batch that it takes next.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) epoch: u32,
    pub(crate) stage: u32,
    pub(crate) next: SequenceNumber,
    pub(crate) state: Vec<u8>,
}

/// An expanding stage has more to make of a batch than the pieces that it has made, or may make.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AskForRoom {
    pub(crate) epoch: u32,
    /// The first piece that there is to be room for.
    pub(crate) first: SequenceNumber,
    pub(crate) pieces: u64,
}

/// There is room for pieces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) epoch: u32,
    /// The batch of which they may be made.
    pub(crate) whole: SequenceNumber,
    pub(crate) pieces: u64,
    /// Items of a full piece.
    pub(crate) items: u32,
}

/// A batch had less to make of it than there was room for.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GiveBack {
    pub(crate) epoch: u32,
    pub(crate) whole: SequenceNumber,
    pub(crate) pieces: u64,
}

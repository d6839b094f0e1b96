//! Messages between the ranks of a pipeline, and their wire format.
//!
//! Rank 0 sends [`Directive`]s to the other ranks and receives [`Report`]s from them. All ranks exchange [`StreamMessage`]s, each of which starts
//! with the epoch of its sender.

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
use crate::rank::protocol::Outgoing;
use crate::wire;

tags! {
    "the pipeline";
    /// Tag of a message.
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

/// Received message.
#[derive(Debug)]
pub(crate) enum Received {
    Directive(Directive),
    Report(Report),
    Stream(StreamMessage),
}

/// Message from rank 0 to another rank.
#[derive(Debug)]
pub(crate) enum Directive {
    Prepare(Prepare),
    Switch(Switch),
    MeasureSpeed,
    /// The stream has ended.
    Finish,
}

/// Message from another rank to rank 0.
#[derive(Debug)]
pub(crate) enum Report {
    Ready(Ready),
    Measurements(Measurements),
    Speed(Speed),
    /// Last report of the rank.
    Total(RankReport),
}

/// Message from any rank to any other rank.
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

/// Received batch.
#[derive(Debug)]
pub(crate) struct Arrived {
    pub(crate) epoch: u32,
    pub(crate) batch: Batch,
    /// Size of the message in bytes.
    pub(crate) bytes: usize,
    /// Time of sending by the sender's clock, if the message was stamped.
    pub(crate) sent: Option<Duration>,
}

/// Content of a message with its own tag, other than a batch.
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

/// Returns a message of run number `run`.
pub(crate) fn frame<C: Content>(run: u32, content: &C) -> Result<Frame> {
    let mut head = frame_header(run, C::TAG).to_vec();
    head.extend_from_slice(&wire::to_bytes(content)?);
    Ok(Frame::new(head))
}

/// Sends a message to rank `to`.
pub(crate) fn send<C: Content>(content: &C, to: usize, out: &mut Outgoing<'_>) -> Result<()> {
    out.send(to, frame(out.run(), content)?)
}

impl Received {
    /// Decodes a message with this tag.
    ///
    /// # Errors
    /// If the message is malformed.
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
    /// Returns the epoch of the sender.
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

/// Directive to prepare a mapping: the receiver sets up its stages of the mapping and reports when they are ready. The stream continues meanwhile.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Prepare {
    pub(crate) table: Table,
    /// Number of batches of every edge on which the sizes of items are measured.
    pub(crate) weigh: usize,
    /// Time since the start of the run by rank 0's clock. The event logs of the ranks count from the start of the run.
    pub(crate) elapsed: Duration,
    /// Interval of measurement reports; `None` if no decision uses them.
    pub(crate) measure_every: Option<Duration>,
    /// Probed links into the receiving rank by sender; empty if traffic is not monitored. Batches are not stamped in that case either.
    pub(crate) links: Vec<Link>,
}

/// Report that the stages of a mapping are set up.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) epoch: u32,
    /// Serial stages created on this rank whose state can be moved to another rank.
    pub(crate) movable: Vec<usize>,
    /// Created stages, and the duration of each factory call.
    pub(crate) warm_up: Vec<(usize, Duration)>,
}

/// Directive to use the mapping of `epoch` from now on, because all ranks are ready.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Switch {
    pub(crate) epoch: u32,
}

/// Directive to run the kernel of the probe and report its speed.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct MeasureSpeed;

/// Directive to end the stream and send the last report.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(crate) struct Finish;

/// Request of a replica that has room for batches.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Request {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) batches: u32,
    /// Batches that the replica requested before and has not started.
    pub(crate) held: u32,
    /// Service time of the replica per item in nanoseconds; 0 if it is unknown.
    pub(crate) service_time: u64,
    /// Standard deviation of the service time between items, in nanoseconds.
    pub(crate) deviation: u64,
}

/// Report that batches wait for an older one at a serial stage or at the sink.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct OutOfOrder {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) batches: u32,
    /// Total size of the waiting batches, each at its widest edge so far.
    pub(crate) bytes: u64,
}

/// Offer of a batch that a sender holds.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Offer {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) number: SequenceNumber,
    pub(crate) items: u32,
    /// Items of the stream behind this batch, if the source knows their number.
    pub(crate) behind: Option<u64>,
}

/// Assignment of a batch to a receiver, sent by the dispatcher to the sender of the batch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Assign {
    pub(crate) epoch: u32,
    pub(crate) edge: u32,
    pub(crate) number: SequenceNumber,
    pub(crate) receiver: u32,
}

/// Serial stage that migrates: its state, and the batch that it takes next.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Token {
    pub(crate) epoch: u32,
    pub(crate) stage: u32,
    pub(crate) next: SequenceNumber,
    pub(crate) state: Vec<u8>,
}

/// Request for room for further pieces, because an expanding stage has not finished a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct AskForRoom {
    pub(crate) epoch: u32,
    /// First piece for which room is requested.
    pub(crate) first: SequenceNumber,
    pub(crate) pieces: u64,
}

/// Grant of room for pieces.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Grant {
    pub(crate) epoch: u32,
    /// Batch of which the pieces may be made.
    pub(crate) whole: SequenceNumber,
    pub(crate) pieces: u64,
    /// Items of a full piece.
    pub(crate) items: u32,
}

/// Return of granted room that a batch did not need.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct GiveBack {
    pub(crate) epoch: u32,
    pub(crate) whole: SequenceNumber,
    pub(crate) pieces: u64,
}

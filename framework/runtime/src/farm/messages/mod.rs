//! The messages of a farm: [`ToMaster`] from workers, [`ToWorker`] from the master, and their one way on and off the wire.
//!
//! A sub-master receives both: it is a worker to the master, and the master of its members.
//!
//! Chunks and results carry data, so the thread that computes encodes results itself ([`encode_result`]), and the master
//! makes frames of chunks ([`encode_chunk`]); neither copies what the codec has written.

pub(super) mod aggregate;
mod chunk;
mod tag;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use aggregate::Entry;
pub(crate) use chunk::{ChunkHeader, Payload, ResultHeader, Times, encode_chunk, encode_result};
pub(super) use tag::Tag;

use super::state::LastActivity;
use super::summary::RankReport;
use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{FRAME_HEADER, Message, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::trail::TrailLocation;
use crate::wire;

/// A message to the master, or from a member to its sub-master.
#[derive(Debug)]
pub(crate) enum ToMaster {
    /// The worker is made.
    Join(Join),
    /// The result of a chunk, as its worker has encoded it.
    Result(Entry),
    /// Results of a sub-master's members.
    Results(Vec<Entry>),
    /// The worker has been in this task for longer than the user allows.
    TimedOut {
        /// The task's number.
        task: u64,
    },
    /// A sub-master has lost a member.
    Lost(Lost),
    /// A sub-master has no members left, and does tasks itself from now on.
    Retired,
    /// The worker leaves; what it has done.
    Report(RankReport),
}

/// A message from the master, or from a sub-master to its members.
#[derive(Debug)]
pub(crate) enum ToWorker {
    /// Tasks to do.
    Chunk(ChunkHeader, Payload),
    /// Chunks for the members of a sub-master.
    Chunks {
        /// How many of them a member may hold beyond the one that it computes.
        ahead: u32,
        /// The chunks.
        chunks: Vec<(ChunkHeader, Payload)>,
    },
    /// Whether the worker is parked.
    Park(bool),
    /// The worker becomes a sub-master.
    Lead(Lead),
    /// The sender is the worker's master from now on.
    Attach(Attach),
    /// A sub-master leads nobody any more: the run ends.
    Dissolve,
    /// The run is over.
    Finish,
}

/// What a rank other than 0 receives.
#[derive(Debug)]
pub(crate) enum Received {
    /// From whom it works for.
    ToWorker(ToWorker),
    /// From a member, or from one that was its member.
    ToMaster(ToMaster),
}

impl ToMaster {
    /// The message that has come.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it is none to a master, or its content is torn.
    pub(crate) fn decode(message: Message) -> Result<Self> {
        let Message { from, ref body, .. } = message;
        Ok(match message.tag::<Tag>()? {
            Tag::Join => ToMaster::Join(wire::from_bytes(body)?),
            Tag::Done => ToMaster::Result(Entry { by: from, body: message.body, parts: message.parts }),
            Tag::Results => ToMaster::Results(aggregate::decode(message.body, message.parts)?.1),
            Tag::TimedOut => ToMaster::TimedOut { task: wire::from_bytes(body)? },
            Tag::Lost => ToMaster::Lost(wire::from_bytes(body)?),
            Tag::Retire => ToMaster::Retired,
            Tag::Report => ToMaster::Report(wire::from_bytes(body)?),
            other => return Err(unexpected(from, other, "master")),
        })
    }

    /// The message as it travels.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it cannot be encoded.
    pub(super) fn encode(self, run: u32) -> Result<Frame> {
        match self {
            ToMaster::Join(join) => small(run, Tag::Join, &join),
            ToMaster::Result(Entry { body, parts, .. }) => {
                let mut head = frame_header(run, Tag::Done).to_vec();
                head.extend_from_slice(&body);
                Ok(Frame { head: head.into(), parts })
            }
            ToMaster::Results(entries) => {
                let entries = entries.into_iter().map(|entry| ([], entry)).collect();
                Ok(aggregate::encode(run, Tag::Results, 0, entries))
            }
            ToMaster::TimedOut { task } => small(run, Tag::TimedOut, &task),
            ToMaster::Lost(lost) => small(run, Tag::Lost, &lost),
            ToMaster::Retired => small(run, Tag::Retire, &()),
            ToMaster::Report(report) => small(run, Tag::Report, &report),
        }
    }

    /// Sends it.
    ///
    /// # Errors
    /// What the transport says.
    pub(crate) fn send(self, endpoint: &mut Endpoint, to: usize) -> Result<()> {
        let frame = self.encode(endpoint.run())?;
        endpoint.send_ready(to, frame)
    }
}

impl ToWorker {
    fn decode(message: Message) -> Result<Self> {
        let Message { from, ref body, .. } = message;
        Ok(match message.tag::<Tag>()? {
            Tag::Chunk => {
                let (header, payload) = chunk::decode_chunk(message.body, message.parts)?;
                ToWorker::Chunk(header, payload)
            }
            Tag::Chunks => {
                let (ahead, entries) = aggregate::decode(message.body, message.parts)?;
                let chunk = |Entry { body, parts, .. }| chunk::decode_chunk(body, parts);
                ToWorker::Chunks { ahead, chunks: entries.into_iter().map(chunk).collect::<Result<_>>()? }
            }
            Tag::Park => ToWorker::Park(wire::from_bytes(body)?),
            Tag::Lead => ToWorker::Lead(wire::from_bytes(body)?),
            Tag::Attach => ToWorker::Attach(wire::from_bytes(body)?),
            Tag::Retire => ToWorker::Dissolve,
            Tag::Finish => ToWorker::Finish,
            other => return Err(unexpected(from, other, "worker")),
        })
    }

    /// The message as it travels.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it cannot be encoded.
    pub(super) fn encode(self, run: u32) -> Result<Frame> {
        match self {
            ToWorker::Chunk(header, payload) => Ok(chunk::frame(run, header, payload)),
            ToWorker::Chunks { ahead, chunks } => {
                let entries = chunks.into_iter().map(|(header, payload)| chunk::entry(header, payload));
                Ok(aggregate::encode(run, Tag::Chunks, ahead, entries.collect()))
            }
            ToWorker::Park(parked) => small(run, Tag::Park, &parked),
            ToWorker::Lead(lead) => small(run, Tag::Lead, &lead),
            ToWorker::Attach(attach) => small(run, Tag::Attach, &attach),
            ToWorker::Dissolve => small(run, Tag::Retire, &()),
            ToWorker::Finish => small(run, Tag::Finish, &()),
        }
    }

    /// Sends it.
    ///
    /// # Errors
    /// What the transport says.
    pub(crate) fn send(self, endpoint: &mut Endpoint, to: usize) -> Result<()> {
        let frame = self.encode(endpoint.run())?;
        endpoint.send_ready(to, frame)
    }
}

impl Received {
    /// The message that has come to a rank other than 0.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it is none of a farm, or its content is torn.
    pub(crate) fn decode(message: Message) -> Result<Self> {
        match message.tag::<Tag>()? {
            // Members send these.
            Tag::Join | Tag::Done => ToMaster::decode(message).map(Received::ToMaster),
            _ => ToWorker::decode(message).map(Received::ToWorker),
        }
    }
}

fn small<T: Serialize>(run: u32, tag: Tag, content: &T) -> Result<Frame> {
    let mut head = Vec::with_capacity(FRAME_HEADER);
    head.extend_from_slice(&frame_header(run, tag));
    head.extend_from_slice(&wire::to_bytes(content)?);
    Ok(Frame::new(head))
}

fn unexpected(from: usize, tag: Tag, receiver: &str) -> Error {
    let text = format!(
        "rank {from} sent {tag:?} in the middle of a farm's run, which its {receiver} does not expect"
    );
    Error::new(ErrorKind::Wire, text)
}

/// A worker has come to the farm and is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    /// What making the worker took.
    pub(crate) warm_up: Duration,
    /// Where its trail is, if it leaves one.
    pub(crate) trail: Option<TrailLocation>,
}

/// What the sign of life of a rank that computes says to whom it works for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Status {
    /// The task that is being computed, or the first one of its chunk where tasks are tiny.
    pub(crate) task: Option<u64>,
    /// Chunks that are here and not begun.
    pub(crate) waiting: u32,
    /// Whether user code can keep this rank from giving signs of life.
    pub(crate) mode: ExecutionMode,
}

/// Where user code runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum ExecutionMode {
    /// On a thread of its own.
    OnThread,
    /// On the thread that communicates, because the last chunks were short. The next one may be long all the same.
    Interleaved,
    /// On the thread that communicates, however long tasks are, because the user wants it so.
    Inline,
}

/// A worker becomes a sub-master.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lead {
    /// The ranks that are its workers from now on, and whether each has come to the farm.
    pub(crate) members: Vec<(usize, bool)>,
    /// What it is to say to them.
    pub(crate) order: Attach,
}

/// A worker is to work for the sender. The master numbers these orders, and an older one that comes late is void.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attach {
    pub(crate) number: u32,
    /// The sub-master whose place the sender takes: it is dead.
    pub(crate) instead_of: Option<usize>,
}

/// A sub-master has lost a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Lost {
    pub(crate) rank: usize,
    pub(crate) why: String,
    /// The numbers of its chunks, which go back to the master, and what it was doing.
    pub(crate) chunks: Vec<u64>,
    pub(crate) last_activity: LastActivity,
}

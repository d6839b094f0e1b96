//! Messages of a farm: [`ToMaster`] from workers, [`ToWorker`] from the master, and their encoding.
//!
//! A sub-master receives both kinds: it is a worker of the master, and the master of its members.
//!
//! Chunks and results carry data. The computing thread therefore encodes results itself ([`encode_result`]), and the master makes frames of
//! chunks ([`encode_chunk`]); neither copies the output of the codec.

pub(super) mod aggregate;
mod chunk;
mod incumbent;
mod tag;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub(crate) use aggregate::Entry;
pub(crate) use chunk::{ChunkHeader, Payload, ResultHeader, Times, encode_chunk, encode_result};
pub(super) use incumbent::{carries_incumbent, with_incumbent, without_incumbent};
pub(super) use tag::Tag;

use super::state::LastActivity;
use super::summary::RankReport;
use crate::comm::Frame;
use crate::comm::endpoint::Endpoint;
use crate::comm::message::{FRAME_HEADER, Message, frame_header};
use crate::error::{Error, ErrorKind, Result};
use crate::rank::trail::TrailLocation;
use crate::wire;

/// Message to the master, or from a member to its sub-master.
#[derive(Debug)]
pub(crate) enum ToMaster {
    /// The worker has been created.
    Join(Join),
    /// Result of a chunk, as its worker has encoded it.
    Result(Entry),
    /// Results of a sub-master's members.
    Results(Vec<Entry>),
    /// The worker has been in this task for longer than the user allows.
    TimedOut {
        /// Number of the task.
        task: u64,
    },
    /// A sub-master has lost a member.
    Lost(Lost),
    /// A sub-master has no members left and runs tasks itself from now on.
    Retired,
    /// The worker leaves and reports its work.
    Report(RankReport),
}

/// Message from the master, or from a sub-master to its members.
#[derive(Debug)]
pub(crate) enum ToWorker {
    /// Tasks to run.
    Chunk(ChunkHeader, Payload),
    /// Chunks for the members of a sub-master.
    Chunks {
        /// Number of chunks that a member may hold in addition to the running one.
        ahead: u32,
        chunks: Vec<(ChunkHeader, Payload)>,
    },
    /// The worker is parked if true, and woken if false.
    Park(bool),
    /// The worker becomes a sub-master.
    Lead(Lead),
    /// The sender is the worker's master from now on.
    Attach(Attach),
    /// A sub-master has no members any more, because the run ends.
    Dissolve,
    /// The run has ended.
    Finish,
}

/// Message received by a rank other than 0.
#[derive(Debug)]
pub(crate) enum Received {
    /// Message from the rank's master.
    ToWorker(ToWorker),
    /// Message from a current or former member.
    ToMaster(ToMaster),
}

impl ToMaster {
    /// Decodes a received message.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message is not one to a master, or its content is damaged.
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

    /// Encodes the message as a frame.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message cannot be encoded.
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

    /// Sends the message to a rank.
    ///
    /// # Errors
    /// Errors of the encoding and of the transport.
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

    /// Encodes the message as a frame.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message cannot be encoded.
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

    /// Sends the message to a rank.
    ///
    /// # Errors
    /// Errors of the encoding and of the transport.
    pub(crate) fn send(self, endpoint: &mut Endpoint, to: usize) -> Result<()> {
        let frame = self.encode(endpoint.run())?;
        endpoint.send_ready(to, frame)
    }
}

impl Received {
    /// Decodes a message received by a rank other than 0.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the message is not one of a farm, or its content is damaged.
    pub(crate) fn decode(message: Message) -> Result<Self> {
        match message.tag::<Tag>()? {
            // Messages from members.
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
    let text = format!("rank {from} sent {tag:?}, which a farm's {receiver} does not expect");
    Error::new(ErrorKind::Wire, text)
}

/// Message of a worker that has joined the farm and is set up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Join {
    /// Time for the creation of the worker.
    pub(crate) warm_up: Duration,
    /// Location of the worker's trail, if it leaves one.
    pub(crate) trail: Option<TrailLocation>,
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

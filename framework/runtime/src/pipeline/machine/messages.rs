//! The book-keeping messages of a stream. All messages of a stream begin with their epoch.

use serde::{Deserialize, Serialize};

use crate::comm::message::{Message, Tag};
use crate::error::{Error, ErrorKind, Result};
use crate::wire;

/// A replica has room.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Request {
    pub(super) epoch: u32,
    pub(super) edge: u32,
    pub(super) batches: u32,
    /// Batches that it has asked for before and not begun.
    pub(super) held: u32,
    /// Nanoseconds that an item keeps the replica busy; 0 if it does not know yet.
    pub(super) pace: u64,
    /// The standard deviation of that, from item to item.
    pub(super) deviation: u64,
}

/// So many batches wait at a serial stage for an older one.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Early {
    pub(super) epoch: u32,
    pub(super) edge: u32,
    pub(super) batches: u32,
    /// Of all of them, each at its widest edge so far.
    pub(super) bytes: u64,
}

/// A sender has a batch to give.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Offer {
    pub(super) epoch: u32,
    pub(super) edge: u32,
    pub(super) number: u64,
    pub(super) items: u32,
    /// Items of the stream behind this batch, if the source knew.
    pub(super) behind: Option<u64>,
}

/// A broker has found a receiver for a batch.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Assign {
    pub(super) epoch: u32,
    pub(super) edge: u32,
    pub(super) number: u64,
    pub(super) receiver: u32,
}

/// A serial stage changes hands: what it remembers, and the batch that it takes next.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Token {
    pub(super) epoch: u32,
    pub(super) stage: u32,
    pub(super) next: u64,
    pub(super) state: Vec<u8>,
}

/// The epoch that a stream message belongs to; all of them begin with it.
pub(super) fn epoch_of(message: &Message) -> Result<u32> {
    match message.tag::<Tag>()? {
        Tag::Data => match message.body.first_chunk::<4>() {
            Some(bytes) => Ok(u32::from_le_bytes(*bytes)),
            None => Err(Error::new(ErrorKind::Wire, "a batch's header is cut short")),
        },
        Tag::Request => wire::from_bytes::<Request>(&message.body).map(|r| r.epoch),
        Tag::Offer => wire::from_bytes::<Offer>(&message.body).map(|o| o.epoch),
        Tag::Early => wire::from_bytes::<Early>(&message.body).map(|e| e.epoch),
        Tag::Assign => wire::from_bytes::<Assign>(&message.body).map(|a| a.epoch),
        Tag::Token => wire::from_bytes::<Token>(&message.body).map(|t| t.epoch),
        other => Err(Error::new(ErrorKind::Wire, format!("a {other:?} message in the middle of a stream"))),
    }
}

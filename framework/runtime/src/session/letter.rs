//! What a message between ranks looks like: an envelope with the number of its run and its kind, and the content.

use bytes::Bytes;

use crate::error::{Error, ErrorKind, Result};
use crate::transport::{Message, Part};

/// What a message is. The numbers are on the wire: they are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    Hello = 1,
    Welcome = 2,
    Bye = 3,
    Farewell = 4,
    Failure = 5,
    Announce = 6,
    Prepare = 16,
    Ready = 17,
    Data = 18,
    Request = 19,
    Offer = 20,
    Assign = 21,
    Token = 22,
    Finish = 23,
    Report = 24,
    Status = 25,
    Probe = 26,
    Echo = 27,
    Switch = 28,
    Measures = 29,
    Early = 30,
    Chunk = 32,
    Done = 33,
    Join = 34,
    Hung = 35,
    Park = 36,
    Lead = 37,
    Attach = 38,
    Bulk = 39,
    Bundle = 40,
    Lost = 41,
    Retire = 42,
    Orders = 48,
    Units = 49,
    Border = 50,
    Gather = 51,
    Saved = 52,
    Wanted = 53,
}

impl Kind {
    fn from_wire(byte: u8) -> Option<Self> {
        use Kind::*;
        [
            Hello, Welcome, Bye, Farewell, Failure, Announce, Prepare, Ready, Data, Request, Offer, Assign,
            Token, Finish, Report, Status, Probe, Echo, Switch, Measures, Early, Chunk, Done, Join, Hung,
            Park, Lead, Attach, Bulk, Bundle, Lost, Retire, Orders, Units, Border, Gather, Saved, Wanted,
        ]
        .into_iter()
        .find(|k| *k as u8 == byte)
    }
}

/// Bytes of the envelope in front of every head: run number (4), kind (1), zero (3).
pub(crate) const ENVELOPE: usize = 8;

/// Where in the envelope the kind is.
pub(crate) const KIND: usize = 4;

/// The envelope of a message of `kind` in run number `run`.
pub(crate) fn envelope(run: u32, kind: Kind) -> [u8; ENVELOPE] {
    let [a, b, c, d] = run.to_le_bytes();
    [a, b, c, d, kind as u8, 0, 0, 0]
}

/// A message that has been opened: who sent it, what it is, and its content without the envelope.
#[derive(Debug)]
pub(crate) struct Letter {
    pub(crate) from: usize,
    pub(crate) kind: Kind,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

/// The number of the run that a message belongs to.
pub(super) fn run_of(message: &Message) -> Result<u32> {
    match message.head.first_chunk::<ENVELOPE>() {
        Some(&[a, b, c, d, ..]) => Ok(u32::from_le_bytes([a, b, c, d])),
        None => {
            let text = format!(
                "a message of {} bytes has no envelope, expected {ENVELOPE} or more",
                message.head.len()
            );
            Err(Error::new(ErrorKind::Wire, text))
        }
    }
}

/// Takes a message, of which [`run_of`] has been asked, out of its envelope.
pub(super) fn open(from: usize, message: Message) -> Result<Letter> {
    let Message { head, parts } = message;
    let kind = Kind::from_wire(head[KIND]).ok_or_else(|| {
        Error::new(ErrorKind::Wire, format!("rank {from} sent a message of unknown kind {}", head[KIND]))
    })?;
    Ok(Letter { from, kind, body: head.slice(ENVELOPE..), parts })
}

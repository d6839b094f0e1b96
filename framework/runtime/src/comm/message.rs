//! Messages between ranks: a header with the number of the run and the tag, and the content.

use bytes::Bytes;

use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};

/// What a message is. The numbers are on the wire: they are not reused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Tag {
    Register = 1,
    Placement = 2,
    Leave = 3,
    Dismiss = 4,
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

impl Tag {
    fn from_wire(byte: u8) -> Option<Self> {
        use Tag::*;
        [
            Register, Placement, Leave, Dismiss, Failure, Announce, Prepare, Ready, Data, Request, Offer,
            Assign, Token, Finish, Report, Status, Probe, Echo, Switch, Measures, Early, Chunk, Done, Join,
            Hung, Park, Lead, Attach, Bulk, Bundle, Lost, Retire, Orders, Units, Border, Gather, Saved,
            Wanted,
        ]
        .into_iter()
        .find(|k| *k as u8 == byte)
    }
}

/// Bytes of the header in front of every frame's head: run number (4), tag (1), zero (3).
pub(crate) const FRAME_HEADER: usize = 8;

/// Where in the header the tag is.
pub(crate) const TAG_AT: usize = 4;

/// The header of a message with `tag` in run number `run`.
pub(crate) fn frame_header(run: u32, tag: Tag) -> [u8; FRAME_HEADER] {
    let [a, b, c, d] = run.to_le_bytes();
    [a, b, c, d, tag as u8, 0, 0, 0]
}

/// A message that has been opened: who sent it, what it is, and its content without the header.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) tag: Tag,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

/// The number of the run that a message belongs to.
pub(super) fn run_of(message: &Frame) -> Result<u32> {
    match message.head.first_chunk::<FRAME_HEADER>() {
        Some(&[a, b, c, d, ..]) => Ok(u32::from_le_bytes([a, b, c, d])),
        None => {
            let text = format!(
                "a message of {} bytes has no header, expected {FRAME_HEADER} or more",
                message.head.len()
            );
            Err(Error::new(ErrorKind::Wire, text))
        }
    }
}

/// Takes a message, of which [`run_of`] has been asked, out of its frame.
pub(super) fn open(from: usize, message: Frame) -> Result<Message> {
    let Frame { head, parts } = message;
    let tag = Tag::from_wire(head[TAG_AT]).ok_or_else(|| {
        Error::new(ErrorKind::Wire, format!("rank {from} sent a message of unknown tag {}", head[TAG_AT]))
    })?;
    Ok(Message { from, tag, body: head.slice(FRAME_HEADER..), parts })
}

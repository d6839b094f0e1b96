//! Messages between ranks: a header with the run number and the tag, followed by the content.

use std::mem::offset_of;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::header::header;

/// Tag of a message. Each module that sends messages defines its own enum of tags with [`tags!`]. Enums of different skeletons may share
/// values: all ranks agree on what a run executes, so only messages of one skeleton and of the session are in flight during a run.
pub(crate) trait Tagged: Copy + std::fmt::Debug + 'static {
    /// Owner of the tags, in words that follow "expected a message of".
    const OF: &'static str;

    /// Returns the tag as it is encoded on the wire.
    fn byte(self) -> u8;

    /// Returns the tag with this encoding, or `None` if the enum has no such tag.
    fn from_byte(byte: u8) -> Option<Self>;
}

/// Defines an enum of tags: `tags! { "the farm"; pub(crate) enum Tag { Chunk = 16, Done = 17 } }`. Values below 16 are reserved for the
/// session.
macro_rules! tags {
    ($of:literal; $(#[$meta:meta])* $vis:vis enum $name:ident { $($(#[$doc:meta])* $tag:ident = $byte:literal),* $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $vis enum $name { $($(#[$doc])* $tag = $byte),* }

        impl $crate::comm::message::Tagged for $name {
            const OF: &'static str = $of;

            fn byte(self) -> u8 {
                self as u8
            }

            fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($byte => Some($name::$tag),)*
                    _ => None,
                }
            }
        }
    };
}
pub(crate) use tags;

tags! {
    "the session";
    /// Messages of the session, which belong to no skeleton.
    pub(crate) enum Control {
        /// To rank 0: a rank has started and registers.
        Register = 1,
        /// From rank 0: all ranks have registered. Contains the placement of the receiver.
        Placement = 2,
        /// To rank 0: a rank has finished its part of the job.
        Leave = 3,
        /// From rank 0: all ranks have finished and may end.
        Dismiss = 4,
        /// An error ends the job.
        Failure = 5,
        /// From rank 0: announcement of the next run.
        Announce = 6,
        Heartbeat = 7,
        /// From rank 0, forwarded from rank to rank: a piece of a broadcast value, not the last one. The first piece also announces the
        /// run.
        Piece = 8,
        /// From rank 0, forwarded from rank to rank: the last piece of a broadcast value.
        LastPiece = 9,
        /// Request for an immediate echo, to measure the round-trip time. The content has no meaning.
        Probe = 10,
        /// Answer to a probe.
        Echo = 11,
        /// Towards rank 0, forwarded from rank to rank: values of the sender and of the ranks below it in the tree.
        Values = 12,
        /// To rank 0 after a failure: the user code of a rank has ended, and the rank can leave.
        Answer = 13,
        /// To rank 0: a rank was asked to stop the job, and by what. From rank 0: the run was stopped, and what is kept. Handled in every run.
        Stop = 14,
    }
}

header! {
    /// Header at the start of every frame's head.
    struct FrameHeader {
        run: u32, tag: u8,
        /// Zero padding, so that the content begins at a multiple of 8 bytes.
        zero: u8, zeros: u16,
    }
}

/// Size in bytes of the header at the start of every frame's head.
pub(crate) const FRAME_HEADER: usize = FrameHeader::SIZE;

/// Offset of the tag in the header, in bytes.
pub(crate) const TAG_AT: usize = offset_of!(FrameHeader, tag);

/// Returns the header of a message with `tag` in run number `run`.
#[inline]
pub(crate) fn frame_header(run: u32, tag: impl Tagged) -> [u8; FRAME_HEADER] {
    FrameHeader { run, tag: tag.byte(), zero: 0, zeros: 0 }.to_bytes()
}

/// Failure of a rank, as it is sent to the other ranks.
#[derive(Serialize, Deserialize)]
pub(super) struct FailureNote {
    pub(super) message: String,
    /// True if a restarted job may succeed.
    pub(super) restart: bool,
}

/// Returns true if a frame carries the failure of a rank. Failures are handled in every run.
///
/// # Errors
/// If the frame is not a message between ranks.
pub(super) fn is_failure(frame: &Frame) -> Result<bool> {
    run_of(frame).map(|_| frame.head[TAG_AT] == Control::Failure.byte())
}

/// A received frame and its sender.
#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) from: usize,
    pub(super) frame: Frame,
}

/// An opened message: sender, tag, and the content without the header.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) code: u8,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Message {
    /// Returns the tag of the message as a value of the tag enum `T`.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if `T` has no such tag.
    pub(crate) fn tag<T: Tagged>(&self) -> Result<T> {
        T::from_byte(self.code).ok_or_else(|| {
            let text = format!(
                "rank {} sent a message with tag {}, expected one of {}",
                self.from,
                self.code,
                T::OF
            );
            Error::new(ErrorKind::Wire, text)
        })
    }

    /// Returns true if the message has this tag.
    pub(crate) fn is(&self, tag: impl Tagged) -> bool {
        self.code == tag.byte()
    }
}

/// Returns the number of the run that a message belongs to.
pub(super) fn run_of(message: &Frame) -> Result<u32> {
    FrameHeader::read(&message.head).map(|header| header.run).ok_or_else(|| {
        let bytes = message.head.len();
        let text =
            format!("a message of {bytes} bytes has no header, expected at least {FRAME_HEADER} bytes");
        Error::new(ErrorKind::Wire, text)
    })
}

/// Returns the message in a frame whose header was checked by [`run_of`].
pub(super) fn open(arrival: Arrival) -> Message {
    let Arrival { from, frame: Frame { head, parts } } = arrival;
    Message { from, code: head[TAG_AT], body: head.slice(FRAME_HEADER..), parts }
}

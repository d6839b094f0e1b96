//! Messages between ranks: a header with the number of the run and the tag, and the content.

use std::mem::offset_of;

use bytes::Bytes;

use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::header::header;

/// What kind of message it is. Each room that sends messages has an enum of its own, which [`tags!`] defines: in a run, which all
/// ranks have agreed on, only one skeleton's messages are on their way, beside those of the session.
pub(crate) trait Tagged: Copy + std::fmt::Debug + 'static {
    /// Whose messages these are, in words that follow "expected a message of".
    const OF: &'static str;

    /// As it is on the wire.
    fn byte(self) -> u8;

    /// From the wire; `None` if it is none of these.
    fn from_byte(byte: u8) -> Option<Self>;
}

/// Defines an enum of tags: `tags! { "the farm"; pub(crate) enum Tag { Chunk = 16, Done = 17 } }`. The session's are below 16.
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
    /// Messages that are not a skeleton's.
    pub(crate) enum Control {
        /// To rank 0: a rank has started.
        Register = 1,
        /// From rank 0: all have, and where this one may run.
        Placement = 2,
        /// To rank 0: a rank has done what it was to do.
        Leave = 3,
        /// From rank 0: all have, end.
        Dismiss = 4,
        /// The job ends because of an error.
        Failure = 5,
        /// From rank 0: what it is about to run.
        Announce = 6,
        /// A sign of life.
        Heartbeat = 7,
        /// From rank 0, passed on from rank to rank: a part of what it gives to all. The first says what is run, too.
        Piece = 8,
        /// The same, and the last part.
        LastPiece = 9,
        /// To be answered at once: the way there and back is timed. What it holds says nothing.
        Probe = 10,
        /// The answer to a probe.
        Echo = 11,
        /// Towards rank 0, from rank to rank: values of the sender and of those below it.
        Values = 12,
    }
}

header! {
    /// In front of every frame's head.
    struct FrameHeader {
        run: u32, tag: u8,
        /// Zeros: what follows begins at a multiple of 8.
        zero: u8, zeros: u16,
    }
}

/// Bytes of the header in front of every frame's head.
pub(crate) const FRAME_HEADER: usize = FrameHeader::SIZE;

/// Where in the header the tag is.
pub(crate) const TAG_AT: usize = offset_of!(FrameHeader, tag);

/// The header of a message with `tag` in run number `run`.
#[inline]
pub(crate) fn frame_header(run: u32, tag: impl Tagged) -> [u8; FRAME_HEADER] {
    FrameHeader { run, tag: tag.byte(), zero: 0, zeros: 0 }.to_bytes()
}

/// A frame that has come.
#[derive(Debug)]
pub(super) struct Arrival {
    /// Who sent it.
    pub(super) from: usize,
    pub(super) frame: Frame,
}

/// A message that has been opened: who sent it, what it is, and its content without the header.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) code: u8,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Message {
    /// What it is, for who expects one of these.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if it is none of them.
    pub(crate) fn tag<T: Tagged>(&self) -> Result<T> {
        T::from_byte(self.code).ok_or_else(|| {
            let text =
                format!("rank {} sent a message of kind {}, expected one of {}", self.from, self.code, T::OF);
            Error::new(ErrorKind::Wire, text)
        })
    }

    /// Whether it is this.
    pub(crate) fn is(&self, tag: impl Tagged) -> bool {
        self.code == tag.byte()
    }
}

/// The number of the run that a message belongs to.
pub(super) fn run_of(message: &Frame) -> Result<u32> {
    FrameHeader::read(&message.head).map(|header| header.run).ok_or_else(|| {
        let bytes = message.head.len();
        let text = format!("a message of {bytes} bytes has no header, expected {FRAME_HEADER} or more");
        Error::new(ErrorKind::Wire, text)
    })
}

/// Takes a message, of which [`run_of`] has been asked, out of its frame.
pub(super) fn open(arrival: Arrival) -> Message {
    let Arrival { from, frame: Frame { head, parts } } = arrival;
    Message { from, code: head[TAG_AT], body: head.slice(FRAME_HEADER..), parts }
}

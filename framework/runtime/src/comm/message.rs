//! Messages between ranks: a header with the run number and the tag, followed by the content. [`messages!`] defines the messages of a protocol.

use std::convert::Infallible;
use std::fmt::Display;
use std::mem::{offset_of, take};

use bytes::{Buf, Bytes};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::{self, header::header};

/// Tag of a message. Each module that sends messages defines its own enum of tags with [`messages!`]. Enums of different skeletons (farm, pipeline,
/// loop, workflow) may have equal values: all ranks agree on the skeleton of a run, so only its messages and those of the session are in flight
/// during the run.
pub(crate) trait Tagged: Copy + std::fmt::Debug + 'static {
    /// Name of the protocol to which the tags belong, after the words "expected a message of".
    const OF: &'static str;

    fn byte(self) -> u8;

    fn from_byte(byte: u8) -> Option<Self>;
}

/// Defines the messages of a protocol:
///
/// ```ignore
/// messages! {
///     "a farm": /** Message to a rank. */ enum Received;
///     /** Tag of a message. */ enum Tag { Incumbent = 43 }
///     /** Message to the master. */ enum ToMaster { TimedOut { task: u64 } = 35, Retired = 42 }
///     /** Message to a worker. */ enum ToWorker { Park(parked: bool) = 36, Chunk(header: ChunkHeader, tasks: Payload) = 32 raw }
/// }
/// ```
///
/// Each message is a variant of one of the enums, with named contents and its tag. `Tag` has a variant of the same name for every message, and
/// variants for messages that are encoded and decoded elsewhere. Tags below 16 are reserved for the session. `Received` is an enum with one
/// variant for each enum of messages.
///
/// serde encodes the contents of a message as one tuple. The contents of a message marked `raw` are encoded one after the other by [`Put`]
/// and decoded by [`Take`]: they are data that are not copied, and headers of fixed size. In `enum Message<V: Sent => Received>`, contents of
/// type `V` have type `Sent` on the sender and type `Received` on the receiver.
macro_rules! messages {
    (@encode [] $run:ident, $tag:expr, ($($field:ident),*)) => {
        $crate::comm::message::encode($run, $tag, &($(&$field,)*))
    };
    (@encode [raw] $run:ident, $tag:expr, ($($field:ident),*)) => {
        $crate::comm::message::frame($run, $tag, 0 $(+ $crate::comm::message::Put::room(&$field))*, |head, parts| {
            $($crate::comm::message::Put::put($field, head, parts)?;)*
            Ok(())
        })
    };
    (@decode [] $body:ident, ($($field:ident),*)) => {
        let ($($field,)*) = $body.value()?;
    };
    (@decode [raw] $body:ident, ($($field:ident),*)) => {
        $(let $field = $crate::comm::message::Take::take(&mut $body)?;)*
        $body.end()?;
    };
    (@received [] $($rest:tt)*) => {};
    (
        @received [$(#[$meta:meta])* $vis:vis enum $received:ident]
        $tag:ident { $($name:ident [$($type:ty)?] [$($variant:ident)*])* }
    ) => {
        $(#[$meta])*
        #[derive(Debug)]
        $vis enum $received { $($name($name $(<$type>)?)),* }

        impl $received {
            /// Decodes a message.
            ///
            /// # Errors
            /// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if the message does not belong to this protocol, or is damaged.
            $vis fn decode(message: $crate::comm::message::Message) -> $crate::error::Result<Self> {
                #[allow(unreachable_patterns)]
                match message.tag()? {
                    $($($tag::$variant)|* => $name::decode(message).map($received::$name),)*
                    tag => Err($crate::comm::message::unexpected(
                        message.from, tag, concat!("one of" $($(, " ", stringify!($variant))*)*)
                    )),
                }
            }

            /// Returns the error that rank `from` sent this message instead of the message `expected`.
            #[allow(dead_code)]
            $vis fn unexpected(&self, from: usize, expected: &str) -> $crate::error::Error {
                match self { $($received::$name(message) => message.unexpected(from, expected)),* }
            }
        }
    };
    (
        $of:literal $(: $(#[$received_meta:meta])* $received_vis:vis enum $received:ident)?;
        $(#[$tag_meta:meta])*
        $tag_vis:vis enum $tag:ident { $($(#[$bare_meta:meta])* $bare:ident = $bare_byte:literal),* $(,)? }
        $(
            $(#[$meta:meta])*
            $vis:vis enum $name:ident $(<$generic:ident: $sent:ty => $taken:ty>)? {
                $(
                    $(#[$doc:meta])*
                    $variant:ident
                        $(($($field:ident: $type:ty),+))?
                        $({ $($(#[$named_doc:meta])* $named:ident: $named_type:ty),+ $(,)? })?
                        = $byte:literal $($raw:ident)?
                ),* $(,)?
            }
        )*
    ) => {
        $(#[$tag_meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $tag_vis enum $tag {
            $($(#[$bare_meta])* $bare = $bare_byte,)*
            $($($variant = $byte,)*)*
        }

        impl $crate::comm::message::Tagged for $tag {
            const OF: &'static str = $of;

            fn byte(self) -> u8 {
                self as u8
            }

            fn from_byte(byte: u8) -> Option<Self> {
                match byte {
                    $($bare_byte => Some($tag::$bare),)*
                    $($($byte => Some($tag::$variant),)*)*
                    _ => None,
                }
            }
        }

        $(
            $(#[$meta])*
            #[derive(Debug)]
            $vis enum $name $(<$generic = $taken>)? {
                $($(#[$doc])* $variant $(($($type),+))? $({ $($(#[$named_doc])* $named: $named_type),+ })?),*
            }

            impl $crate::comm::message::Encode for $name $(<$sent>)? {
                fn encode(self, run: u32) -> $crate::error::Result<$crate::comm::Frame> {
                    match self {
                        $($name::$variant $(($($field),+))? $({ $($named),+ })? =>
                            $crate::comm::message::messages!(
                                @encode [$($raw)?] run, $tag::$variant, ($($($field),+)? $($($named),+)?)
                            ),)*
                    }
                }
            }

            impl $name $(<$taken>)? {
                /// Decodes a message.
                ///
                /// # Errors
                /// [`ErrorKind::Wire`](crate::ErrorKind::Wire) if the message is no variant of this enum, or is damaged.
                #[allow(unused_mut)]
                $vis fn decode(message: $crate::comm::message::Message) -> $crate::error::Result<Self> {
                    let tag = message.tag()?;
                    let mut body = $crate::comm::message::Body::of(message, tag);
                    #[allow(unreachable_patterns)]
                    Ok(match tag {
                        $($tag::$variant => {
                            $crate::comm::message::messages!(
                                @decode [$($raw)?] body, ($($($field),+)? $($($named),+)?)
                            );
                            $name::$variant $(($($field),+))? $({ $($named),+ })?
                        })*
                        tag => return Err($crate::comm::message::unexpected(
                            body.from, tag, concat!("one of" $(, " ", stringify!($variant))*)
                        )),
                    })
                }

                /// Returns the error that rank `from` sent this message instead of the message `expected`.
                #[allow(dead_code)]
                $vis fn unexpected(&self, from: usize, expected: &str) -> $crate::error::Error {
                    let tag = match self { $($name::$variant { .. } => $tag::$variant),* };
                    $crate::comm::message::unexpected(from, tag, expected)
                }
            }
        )*

        $crate::comm::message::messages!(
            @received [$($(#[$received_meta])* $received_vis enum $received)?]
            $tag { $($name [$($taken)?] [$($variant)*])* }
        );
    };
}
pub(crate) use messages;

messages! {
    "the session";
    /// Messages of the session: start, failure and end of the job, and collective operations. They belong to no farm, pipeline, loop or workflow.
    pub(crate) enum Control {
        /// To rank 0: a rank has started and registers.
        Register = 1,
        /// From rank 0: all ranks have registered. Contains the cores that the receiver may use.
        Placement = 2,
        /// To rank 0: a rank has finished its part of the job and wants to leave.
        Leave = 3,
        /// From rank 0: all ranks have finished and may end.
        Dismiss = 4,
        /// To all other ranks: a rank has failed, with its error, which ends the job.
        Failure = 5,
        /// From rank 0: announcement of the next run of a farm, pipeline, loop, workflow or collective operation.
        Announce = 6,
        Heartbeat = 7,
        /// From rank 0, forwarded from rank to rank: a part of a broadcast value that is sent in several messages, but not the last part. The first
        /// part also announces the broadcast.
        Piece = 8,
        /// From rank 0, forwarded from rank to rank: the last part of a broadcast value, after which the broadcast is complete.
        LastPiece = 9,
        /// Request for an immediate reply, to measure the round-trip time. The content has no meaning.
        Probe = 10,
        /// Reply to a `Probe` message, which measures the round-trip time.
        Echo = 11,
        /// Forwarded from rank to rank towards rank 0: values of the sender and of the ranks below it in the tree of a collective operation.
        Values = 12,
        /// To rank 0 after a failure: the user code of a rank has ended, and the rank can leave.
        Answer = 13,
        /// To rank 0: request to stop the job, with its cause. From rank 0: notice that the run was stopped, with the reason and the kept results.
        /// The receiver handles the message in any run of a farm, pipeline, loop or workflow.
        Stop = 14,
    }
}

header! {
    /// Header with which every message (frame) begins.
    struct FrameHeader {
        run: u32, tag: u8,
        /// Zero padding of the header, so that the content after it begins at a multiple of 8 bytes.
        zero: u8, zeros: u16,
    }
}

/// Size in bytes of the header with which every message begins.
pub(crate) const FRAME_HEADER: usize = FrameHeader::SIZE;

/// Offset of the tag in the header of a frame, in bytes.
pub(crate) const TAG_AT: usize = offset_of!(FrameHeader, tag);

#[inline]
pub(crate) fn frame_header(run: u32, tag: impl Tagged) -> [u8; FRAME_HEADER] {
    FrameHeader { run, tag: tag.byte(), zero: 0, zeros: 0 }.to_bytes()
}

pub(crate) trait Encode {
    fn encode(self, run: u32) -> Result<Frame>;
}

impl Encode for Frame {
    fn encode(self, _: u32) -> Result<Frame> {
        Ok(self)
    }
}

/// Content of a message that is encoded without serde (marked `raw` in [`messages!`]).
pub(crate) trait Put {
    /// Returns the number of bytes to reserve in the message's head buffer for the small data of this content; large data are sent as separate
    /// parts.
    fn room(&self) -> usize {
        0
    }

    /// Appends the content to the message: small data to the buffer `head`, and large data to the list `parts`, without a copy.
    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()>;
}

/// Content of a message that is decoded without serde (marked `raw` in [`messages!`]).
pub(crate) trait Take: Sized {
    /// Decodes the content from the beginning of `body`, and removes the decoded bytes from it.
    fn take(body: &mut Body) -> Result<Self>;
}

impl Put for u32 {
    fn put(self, head: &mut Vec<u8>, _: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&self.to_le_bytes());
        Ok(())
    }
}

impl Take for u32 {
    fn take(body: &mut Body) -> Result<Self> {
        body.header(size_of::<u32>(), |head| head.first_chunk().copied().map(u32::from_le_bytes))
    }
}

impl Put for usize {
    fn put(self, head: &mut Vec<u8>, _: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&(self as u64).to_le_bytes());
        Ok(())
    }
}

impl Take for usize {
    fn take(body: &mut Body) -> Result<Self> {
        let number =
            body.header(size_of::<u64>(), |head| head.first_chunk().copied().map(u64::from_le_bytes))?;
        usize::try_from(number).map_err(|_| body.error(format!("{number} exceeds the address space")))
    }
}

/// Takes the rest of a message's content as a whole, to be decoded later.
impl Take for Body {
    fn take(body: &mut Body) -> Result<Self> {
        let (head, parts) = body.rest();
        Ok(body.with(head, parts))
    }
}

/// `Infallible` is the content of messages that this rank only receives. It has no values, so it needs no encoding.
impl Put for Infallible {
    fn put(self, _: &mut Vec<u8>, _: &mut Vec<Part>) -> Result<()> {
        match self {}
    }
}

/// Returns a message of the run with number `run`. `write` writes its content; `room` bytes are reserved for the small data of the content.
#[inline]
pub(crate) fn frame(
    run: u32,
    tag: impl Tagged,
    room: usize,
    write: impl FnOnce(&mut Vec<u8>, &mut Vec<Part>) -> Result<()>,
) -> Result<Frame> {
    let (mut head, mut parts) = (Vec::with_capacity(FRAME_HEADER + room), Vec::new());
    head.extend_from_slice(&frame_header(run, tag));
    write(&mut head, &mut parts)?;
    Ok(Frame { head: head.into(), parts })
}

pub(crate) fn encode<T: Serialize>(run: u32, tag: impl Tagged, content: &T) -> Result<Frame> {
    let room = if size_of::<T>() == 0 { 0 } else { 64 };
    frame(run, tag, room, |head, _| wire::append(content, head))
}

/// Content of a received message. Decoding removes the decoded part from it.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) from: usize,
    code: u8,
    describe: fn(u8) -> String,
    pub(crate) head: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Body {
    pub(crate) fn of<T: Tagged>(message: Message, _: T) -> Self {
        let describe = |code| T::from_byte(code).map_or(String::new(), |tag| format!("{tag:?} of {}", T::OF));
        let Message { from, code, body: head, parts } = message;
        Body { from, code, describe, head, parts }
    }

    /// Decodes the whole content, which was encoded by serde.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the content is not an encoded `T`. The allocated memory is at most a small multiple of the size of the content.
    pub(crate) fn value<T: DeserializeOwned>(mut self) -> Result<T> {
        let value = wire::from_bytes(&self.head).map_err(|error| self.error(error.message()))?;
        self.head.clear();
        self.end().map(|()| value)
    }

    pub(crate) fn header<H>(&mut self, size: usize, read: impl FnOnce(&[u8]) -> Option<H>) -> Result<H> {
        let header = read(&self.head)
            .ok_or_else(|| self.error(format!("expected at least {size} bytes, got {}", self.head.len())))?;
        self.head.advance(size);
        Ok(header)
    }

    pub(crate) fn list<H, F: Fn(&[u8]) -> Option<H>>(
        &mut self,
        count: usize,
        size: usize,
        read: F,
    ) -> Result<impl Iterator<Item = H> + use<H, F>> {
        let (got, bytes) = (self.head.len(), count.saturating_mul(size));
        if bytes > got {
            return Err(self.error(format!("expected at least {bytes} bytes, got {got}")));
        }
        let list = self.head.split_to(bytes);
        Ok((0..count).filter_map(move |at| read(&list[at * size..])))
    }

    /// Returns a received message with the sender and tag of this one, and with other content: the small data `head` and the large data `parts`.
    pub(crate) fn with(&self, head: Bytes, parts: Vec<Part>) -> Body {
        Body { head, parts, ..*self }
    }

    pub(crate) fn rest(&mut self) -> (Bytes, Vec<Part>) {
        (take(&mut self.head), take(&mut self.parts))
    }

    pub(crate) fn end(&self) -> Result<()> {
        if self.head.is_empty() && self.parts.is_empty() {
            return Ok(());
        }
        Err(self.error(format!("{} bytes and {} parts too many", self.head.len(), self.parts.len())))
    }

    pub(crate) fn error(&self, why: impl Display) -> Error {
        let text = format!("rank {} sent a damaged {}: {why}", self.from, (self.describe)(self.code));
        Error::new(ErrorKind::Wire, text)
    }
}

pub(crate) fn unexpected<T: Tagged>(from: usize, tag: T, expected: &str) -> Error {
    Error::new(ErrorKind::Wire, format!("rank {from} sent {tag:?} of {}, expected {expected}", T::OF))
}

/// Content of the message with which a rank reports its failure to the other ranks.
#[derive(Serialize, Deserialize)]
pub(super) struct FailureMessage {
    pub(super) message: String,
    pub(super) restart: bool,
}

/// Returns true if a frame carries the failure of a rank. A failure message is handled in any run of a farm, pipeline, loop or workflow.
///
/// # Errors
/// If the frame is not a message between ranks.
pub(super) fn is_failure(frame: &Frame) -> Result<bool> {
    run_of(frame).map(|_| frame.head[TAG_AT] == Control::Failure.byte())
}

#[derive(Debug)]
pub(super) struct Arrival {
    pub(super) from: usize,
    pub(super) frame: Frame,
}

/// A received message: sender, tag, and the content without the header.
#[derive(Debug)]
pub(crate) struct Message {
    pub(crate) from: usize,
    pub(crate) code: u8,
    pub(crate) body: Bytes,
    pub(crate) parts: Vec<Part>,
}

impl Message {
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

    pub(crate) fn expect<T: Tagged>(self, expected: T) -> Result<Body> {
        match self.tag::<T>()? {
            tag if self.is(expected) => Ok(Body::of(self, tag)),
            tag => Err(unexpected(self.from, tag, &format!("{expected:?}"))),
        }
    }

    pub(crate) fn is(&self, tag: impl Tagged) -> bool {
        self.code == tag.byte()
    }
}

pub(super) fn run_of(message: &Frame) -> Result<u32> {
    FrameHeader::read(&message.head).map(|header| header.run).ok_or_else(|| {
        let bytes = message.head.len();
        let text =
            format!("a message of {bytes} bytes has no header, expected at least {FRAME_HEADER} bytes");
        Error::new(ErrorKind::Wire, text)
    })
}

/// Returns the message in a frame whose header was checked by [`run_of`]: the header is removed.
pub(super) fn open(arrival: Arrival) -> Message {
    let Arrival { from, frame: Frame { head, parts } } = arrival;
    Message { from, code: head[TAG_AT], body: head.slice(FRAME_HEADER..), parts }
}

#[cfg(test)]
pub(crate) fn received(from: usize, frame: Frame) -> Message {
    open(Arrival { from, frame })
}

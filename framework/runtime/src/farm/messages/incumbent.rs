//! The incumbent (best value known so far) as an addition to any message of a farm: one bit of the message's tag shows that the encoded value follows
//! the content of the message. Messages without the incumbent are unchanged.

use bytes::Bytes;

use crate::comm::Frame;
use crate::comm::message::{Message, TAG_AT};
use crate::error::{Error, ErrorKind, Result};

/// Bit of a message's tag: the message carries the incumbent. The tags of a farm's messages leave this bit free.
const CARRIES: u8 = 1 << 7;
/// Size in bytes of the field with the length of the encoded incumbent (best value known so far), at the end of the first part of the message.
const LENGTH: usize = size_of::<u32>();

/// Adds the encoded incumbent to a message, after its content, so that the alignment of the content does not change.
pub(in super::super) fn with_incumbent(frame: Frame, value: &[u8]) -> Frame {
    let mut head = Vec::with_capacity(frame.head.len() + value.len() + LENGTH);
    head.extend_from_slice(&frame.head);
    head[TAG_AT] |= CARRIES;
    head.extend_from_slice(value);
    // The conversion of the length is exact, because an encoded value has at most 64 MiB.
    head.extend_from_slice(&(value.len() as u32).to_le_bytes());
    Frame { head: head.into(), ..frame }
}

#[inline]
pub(in super::super) fn carries_incumbent(message: &Message) -> bool {
    message.code & CARRIES != 0
}

/// Divides a message that [carries the incumbent](carries_incumbent) into the original message and the encoded value.
///
/// # Errors
/// [`ErrorKind::Wire`] if the message is shorter than its value.
pub(in super::super) fn without_incumbent(mut message: Message) -> Result<(Message, Bytes)> {
    let size = message.body.len();
    let value = message.body.split_last_chunk::<LENGTH>().and_then(|(rest, length)| {
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        rest.len().checked_sub(length)
    });
    let begin = value.ok_or_else(|| {
        let text =
            format!("a message of {size} bytes from rank {} is shorter than its incumbent", message.from);
        Error::new(ErrorKind::Wire, text)
    })?;
    let value = message.body.slice(begin..size - LENGTH);
    message.body.truncate(begin);
    message.code &= !CARRIES;
    Ok((message, value))
}

#[cfg(test)]
mod tests {
    use super::super::Tag;
    use super::*;
    use crate::comm::Part;
    use crate::comm::message::{FRAME_HEADER, frame_header};

    fn received(frame: Frame) -> Message {
        let Frame { head, parts } = frame;
        Message { from: 3, code: head[TAG_AT], body: head.slice(FRAME_HEADER..), parts }
    }

    fn frame(content: &[u8]) -> Frame {
        let head = [&frame_header(7, Tag::Chunk)[..], content].concat();
        Frame { head: head.into(), parts: vec![Part::of(vec![9_u8; 3])] }
    }

    #[test]
    fn removing_the_incumbent_restores_the_message() {
        for content in [&b""[..], b"tasks"] {
            assert!(!carries_incumbent(&received(frame(content))));
            for value in [&b""[..], b"best"] {
                let message = received(with_incumbent(frame(content), value));
                assert!(carries_incumbent(&message));
                let (message, taken) = without_incumbent(message).unwrap();
                assert!(message.is(Tag::Chunk) && message.body == content && taken == value);
                assert_eq!((message.from, message.parts[0].len()), (3, 3));
            }
        }
    }

    #[test]
    fn hostile_lengths_are_errors() {
        let message =
            |body: &'static [u8]| Message { from: 3, code: CARRIES, body: body.into(), parts: vec![] };
        for body in [&b""[..], b"abc", &[5, 0, 0, 0], b"1234\x05\0\0\0", &[255; 8]] {
            let error = without_incumbent(message(body)).unwrap_err();
            assert!(error.kind() == ErrorKind::Wire && error.to_string().contains("shorter"), "{error}");
        }
    }
}

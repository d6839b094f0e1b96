//! Header of an encoded batch of items (codec and layout), and checked reading of the rest of the batch.

use bytes::{Buf, Bytes};

use super::{OWN_PART, header::header};
use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};

/// Version of the format of an encoded batch. Its top bit shows the byte order in which the sender has written all numbers.
pub(super) const VERSION: u8 = 1 | if cfg!(target_endian = "big") { OTHER_ORDER } else { 0 };

/// Bit of the format version that is set by big-endian machines.
const OTHER_ORDER: u8 = 1 << 7;

header! {
    struct Start {
        version: u8, codec: u8,
        /// Location of the items' memory: 1 if it is the first part of the message, 0 if it follows this header in the message's head (its first
        /// bytes).
        in_part: u8,
    }
}

pub(super) const START: usize = Start::SIZE;

pub(super) fn put_start(head: &mut Vec<u8>, id: u8, in_part: bool) {
    head.extend_from_slice(&Start { version: VERSION, codec: id, in_part: u8::from(in_part) }.to_bytes());
}

/// Appends to `head` the header of a batch, the bytes `extra` (data that the codec needs in addition), and the memory of `items`. If the items take
/// [`OWN_PART`] bytes or more, their memory becomes a part of the message instead, without a copy.
pub(super) fn put_memory<P: bytemuck::NoUninit + Send>(
    items: Vec<P>,
    id: u8,
    extra: &[u8],
    head: &mut Vec<u8>,
    parts: &mut Vec<Part>,
) {
    let size = size_of::<P>() * items.len();
    put_start(head, id, size >= OWN_PART);
    head.extend_from_slice(extra);
    if size >= OWN_PART {
        parts.push(Part::of(items));
    } else {
        head.extend_from_slice(bytemuck::cast_slice(&items));
    }
}

/// Reader of an encoded batch whose header has been checked. Every method checks that enough bytes are present before it allocates memory.
pub(super) struct Reader {
    what: String,
    head: Bytes,
    in_part: bool,
    parts: std::vec::IntoIter<Part>,
}

impl Reader {
    /// Checks the header of a batch: its version, its layout, and that its codec is `id`, the codec of this rank's item type `what`. `describe`
    /// returns the name of a codec for error messages.
    pub(super) fn open(
        mut head: Bytes,
        parts: Vec<Part>,
        (id, what): (u8, &str),
        describe: fn(u8) -> String,
    ) -> Result<Self> {
        let wrong = |message: String| Err(Error::new(ErrorKind::Wire, message));
        let Some(Start { version, codec: found, in_part }) = Start::read(&head) else {
            return wrong(format!("batch of {what}: expected at least {START} bytes, got {}", head.len()));
        };
        head.advance(START);
        if version != VERSION {
            let meaning = match version {
                other if other == VERSION ^ OTHER_ORDER => " (a rank with the other byte order)",
                _ => "",
            };
            return wrong(format!(
                "batch of {what}: expected format version {VERSION:#04x}, got {version:#04x}{meaning}; \
                 do all ranks run the same build?"
            ));
        }
        if found != id {
            let found = describe(found);
            return wrong(format!(
                "expected a batch of {what}, got one of {found}; do all ranks run the same build?"
            ));
        }
        if in_part > 1 {
            return wrong(format!("batch of {what}: expected layout 0 or 1, got {in_part}"));
        }
        Ok(Reader { what: what.to_string(), head, in_part: in_part == 1, parts: parts.into_iter() })
    }

    pub(super) fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Wire, format!("batch of {}: {message}", self.what))
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(self.u32s(1)?[0])
    }

    pub(super) fn u32s(&mut self, count: usize) -> Result<Vec<u32>> {
        let size = count.saturating_mul(size_of::<u32>());
        if self.head.len() < size {
            return Err(self.error(format!("expected {size} more bytes, got {}", self.head.len())));
        }
        let numbers =
            self.head[..size].as_chunks::<4>().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect();
        self.head.advance(size);
        Ok(numbers)
    }

    pub(super) fn part(&mut self) -> Result<Part> {
        self.parts.next().ok_or_else(|| self.error("expected one more part, got none"))
    }

    /// Returns the items' bytes, which are the rest of the message's head or the first part of the message. The reader keeps no reference to the
    /// head's buffer, so that the caller may become its only owner.
    pub(super) fn bulk(&mut self) -> Result<Part> {
        if !self.in_part {
            return Ok(std::mem::take(&mut self.head).into());
        }
        if !self.head.is_empty() {
            return Err(self.error(format!("{} bytes too many in the head", self.head.len())));
        }
        self.part()
    }

    /// Returns the items' bytes of a batch of `count` values of `size` bytes each, and checks that the message has no further bytes.
    pub(super) fn memory(&mut self, size: usize, count: usize) -> Result<Part> {
        let bytes = self.bulk()?;
        if size.checked_mul(count) != Some(bytes.len()) {
            return Err(
                self.error(format!("expected {count} items of {size} bytes, got {} bytes", bytes.len()))
            );
        }
        self.end()?;
        Ok(bytes)
    }

    pub(super) fn end(&mut self) -> Result<()> {
        match self.parts.len() {
            0 => Ok(()),
            more => Err(self.error(format!("{more} parts too many"))),
        }
    }
}

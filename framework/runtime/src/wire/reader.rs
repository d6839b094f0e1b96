//! The start of a batch's bytes (who wrote them, how they are laid out) and the checked way through the rest.

use bytes::{Buf, Bytes};

use super::OWN_PART;
use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};

/// Version of the layout. Numbers are in the writer's byte order, which the top bit tells.
pub(super) const VERSION: u8 = 1 | if cfg!(target_endian = "big") { 0x80 } else { 0 };

/// Where the bulk bytes are.
const INLINE: u8 = 0;
const FIRST_PART: u8 = 1;

/// Appends the three bytes with which every batch starts.
pub(super) fn put_start(head: &mut Vec<u8>, id: u8, in_part: bool) {
    head.extend_from_slice(&[VERSION, id, if in_part { FIRST_PART } else { INLINE }]);
}

/// Appends start, `extra` and the memory of `items`, or moves the memory into a part.
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

/// Reads a batch whose start has been checked. Every step checks that the bytes are there before it allocates.
pub(super) struct Reader {
    what: String,
    head: Bytes,
    in_part: bool,
    parts: std::vec::IntoIter<Part>,
}

impl Reader {
    /// Checks the start: version, the codec `id` that this rank expects (called `what` in messages), layout. `describe` says what
    /// another codec is.
    pub(super) fn open(
        mut head: Bytes,
        parts: Vec<Part>,
        (id, what): (u8, &str),
        describe: fn(u8) -> String,
    ) -> Result<Self> {
        let wrong = |message: String| Err(Error::new(ErrorKind::Wire, message));
        if head.len() < 3 {
            return wrong(format!("batch of {what}: expected at least 3 bytes, got {}", head.len()));
        }
        let (version, found, layout) = (head.get_u8(), head.get_u8(), head.get_u8());
        if version != VERSION {
            let meaning = match version {
                other if other == VERSION ^ 0x80 => " (a rank with the other byte order)",
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
        if layout > FIRST_PART {
            return wrong(format!("batch of {what}: expected layout 0 or 1, got {layout}"));
        }
        Ok(Reader { what: what.to_string(), head, in_part: layout == FIRST_PART, parts: parts.into_iter() })
    }

    /// An error about this batch.
    pub(super) fn error(&self, message: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Wire, format!("batch of {}: {message}", self.what))
    }

    /// The next four bytes of the head as a number.
    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(self.u32s(1)?[0])
    }

    /// The next `count` numbers of the head.
    pub(super) fn u32s(&mut self, count: usize) -> Result<Vec<u32>> {
        let size = count.saturating_mul(4);
        if self.head.len() < size {
            return Err(self.error(format!("expected {size} more bytes, got {}", self.head.len())));
        }
        let numbers =
            self.head[..size].as_chunks::<4>().0.iter().map(|&bytes| u32::from_ne_bytes(bytes)).collect();
        self.head.advance(size);
        Ok(numbers)
    }

    /// The next part.
    pub(super) fn part(&mut self) -> Result<Part> {
        self.parts.next().ok_or_else(|| self.error("expected one more part, got none"))
    }

    /// All bulk bytes: the rest of the head, or the first part if the frame says so. The rest of the head is
    /// given up here, so that the caller may become the only holder of its buffer.
    pub(super) fn bulk(&mut self) -> Result<Part> {
        if !self.in_part {
            return Ok(std::mem::take(&mut self.head).into());
        }
        if !self.head.is_empty() {
            return Err(self.error(format!("{} bytes too many in the head", self.head.len())));
        }
        self.part()
    }

    /// All bulk bytes of a batch of `count` values of `size` bytes each, and nothing else.
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

    /// Checks that every part has been used.
    pub(super) fn end(&mut self) -> Result<()> {
        match self.parts.len() {
            0 => Ok(()),
            more => Err(self.error(format!("{more} parts too many"))),
        }
    }
}

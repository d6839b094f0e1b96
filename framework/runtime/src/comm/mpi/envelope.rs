//! MPI tags of control messages, and envelopes: an envelope announces a message before its bulk data. Pure functions; `README.md` describes the
//! protocol.

use bytes::{Buf, BufMut, Bytes};

use crate::comm::{Frame, Part};
use crate::error::{Error, ErrorKind, Result};

/// Maximum size in bytes of a piece of a message that is sent inside the envelope, because a copy of it is cheaper than another MPI message. A piece
/// is the head, with the small data, or one of the parts, with large data. If an envelope with all pieces fits into a control message, all pieces are
/// sent inside it, whatever their sizes.
pub(super) const INLINE: usize = 4096;

/// Maximum total size in bytes of the data of a message that are sent inside its envelope.
const INLINE_TOTAL: usize = 16 << 20;

/// Maximum number of large data blocks (parts) of one message.
pub(super) const MOST_PARTS: usize = 1 << 20;

/// Modulus of message numbers. MPI guarantees tags up to 32767, which have 15 bits: two bits encode the kind of a message, the others its
/// number.
const NUMBERS: u16 = 1 << 13;

/// Flag in the length that an envelope states for a piece of a message: the piece follows as bulk data and is not inside the envelope.
const BULK: u64 = 1 << 63;

/// Position of the two bits that encode the alignment [`Unit`] of bulk data, within the 64-bit number that states the length of the data.
const UNIT_SHIFT: u32 = 61;

const WORD: usize = size_of::<u64>();

/// Mask of the bits that hold the number of bytes, in the length of bulk data.
const LENGTH: u64 = (1 << UNIT_SHIFT) - 1;

/// Unit of the bulk data of a message: bytes, or words of four or eight bytes. The data are received into memory with the alignment of this unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Byte = 0,
    Word32 = 1,
    Word64 = 2,
}

impl Unit {
    fn of(part: &Part) -> Self {
        match part {
            Part::Bytes(_) => Unit::Byte,
            Part::Words32(_) => Unit::Word32,
            Part::Words64(_) => Unit::Word64,
        }
    }

    fn code(self) -> u64 {
        (self as u64) << UNIT_SHIFT
    }

    /// Returns the unit (byte or word) that is encoded in the 64-bit number with the length of bulk data; `None` if the bits are no known unit.
    fn read(length: u64) -> Option<Self> {
        [Unit::Byte, Unit::Word32, Unit::Word64]
            .into_iter()
            .find(|unit| unit.code() == length & !BULK & !LENGTH)
    }

    fn size(self) -> u64 {
        match self {
            Unit::Byte => 1,
            Unit::Word32 => size_of::<u32>() as u64,
            Unit::Word64 => size_of::<u64>() as u64,
        }
    }
}

/// Kind of a control message, which is the first MPI message of a transferred message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// The whole message, which is short enough for one MPI message and has no separate large data.
    Head = 0,
    Envelope = 1,
    /// Length of an envelope that is too long for a control message and follows as the first bulk data.
    Far = 2,
}

/// Number of a message among those from one rank to another, modulo [`NUMBERS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Number(u16);

impl Number {
    pub(super) fn next(self) -> Self {
        Number((self.0 + 1) % NUMBERS)
    }
}

pub(super) fn tag(kind: Kind, number: Number) -> i32 {
    (i32::from(number.0) << 2) | kind as i32
}

pub(super) fn read_tag(tag: i32) -> Result<(Kind, Number)> {
    let kind = match tag & 3 {
        0 => Kind::Head,
        1 => Kind::Envelope,
        2 => Kind::Far,
        _ => return Err(wire(format!("tag {tag} is not a tag of armature"))),
    };
    match u16::try_from(tag >> 2) {
        Ok(number) if number < NUMBERS => Ok((kind, Number(number))),
        _ => Err(wire(format!("tag {tag} is not a tag of armature"))),
    }
}

/// MPI messages that transfer one message: first a control message, then the bulk data in order.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Plan {
    pub(super) kind: Kind,
    pub(super) control: Bytes,
    pub(super) bulk: Vec<Bytes>,
}

/// Returns the MPI messages that transfer `message`, where a control message holds at most `slot` bytes.
pub(super) fn plan(message: Frame, slot: usize) -> Result<Plan> {
    let Frame { head, parts } = message;
    if parts.is_empty() && head.len() <= slot {
        return Ok(Plan { kind: Kind::Head, control: head, bulk: Vec::new() });
    }
    if parts.len() > MOST_PARTS {
        let text = format!("a message has {} parts, expected at most {MOST_PARTS}", parts.len());
        return Err(wire(text));
    }
    let rest = || parts.iter().map(|part| (part.bytes(), Unit::of(part)));
    let pieces = || std::iter::once((&head[..], Unit::Byte)).chain(rest());
    let count = parts.len() + 1;
    let bytes: usize = pieces().map(|(piece, _)| piece.len()).sum();
    if WORD * (count + 1) + bytes <= slot {
        let control = write(pieces(), count, bytes, |_| true);
        return Ok(Plan { kind: Kind::Envelope, control, bulk: Vec::new() });
    }
    let mut room = INLINE_TOTAL;
    let places: Vec<bool> = pieces()
        .map(|(piece, _)| {
            let fits = piece.len() <= INLINE.min(room);
            room -= if fits { piece.len() } else { 0 };
            fits
        })
        .collect();
    let envelope = write(pieces(), count, INLINE_TOTAL - room, |i| places[i]);
    let mut bulk = Vec::with_capacity(count + 1);
    let (kind, control) = if envelope.len() > slot {
        let length = Bytes::copy_from_slice(&(envelope.len() as u64).to_le_bytes());
        bulk.push(envelope);
        (Kind::Far, length)
    } else {
        (Kind::Envelope, envelope)
    };
    let all = std::iter::once(Part::Bytes(head)).chain(parts);
    bulk.extend(all.zip(places).filter(|(_, inline)| !inline).map(|(piece, _)| piece.into_bytes()));
    Ok(Plan { kind, control, bulk })
}

/// Writes the envelope of a message that consists of `count` pieces: its small data and each of its large data. Pieces for which `inline` is true
/// are inside the envelope and have `bytes` bytes in total.
fn write<'a>(
    pieces: impl Iterator<Item = (&'a [u8], Unit)> + Clone,
    count: usize,
    bytes: usize,
    inline: impl Fn(usize) -> bool,
) -> Bytes {
    let mut envelope = Vec::with_capacity(WORD * (count + 1) + bytes);
    envelope.put_u64_le(count as u64);
    for (i, (piece, unit)) in pieces.clone().enumerate() {
        envelope.put_u64_le(piece.len() as u64 | if inline(i) { 0 } else { BULK | unit.code() });
    }
    for (_, (piece, _)) in pieces.enumerate().filter(|(i, _)| inline(*i)) {
        envelope.put_slice(piece);
    }
    envelope.into()
}

/// A piece of a message, as announced by the envelope: the small data of the message, or one of its large data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Announced {
    /// The bytes of this piece of the message, which are inside the envelope.
    Here(Bytes),
    /// Description of a piece of the message that follows as bulk data: its `length` in bytes, a multiple of the size of `unit`.
    Bulk { length: usize, unit: Unit },
}

/// Reads an envelope, and returns the announced pieces of the message: first its small data (the head), then each of its large data (the parts). The
/// allocated memory is bounded by the size of the envelope.
///
/// # Errors
/// [`ErrorKind::Wire`] if the lengths do not add up, a length is not a multiple of its word size, a word size is unknown, or the bulk data have more
/// than `largest` bytes in total.
pub(super) fn read(mut envelope: Bytes, largest: u64) -> Result<Vec<Announced>> {
    let size = envelope.len();
    let broken = |why: String| wire(format!("an envelope of {size} bytes cannot be read: {why}"));
    let count =
        envelope.try_get_u64_le().map_err(|_| broken("it is too short for the number of pieces".into()))?;
    if count == 0 || count > MOST_PARTS as u64 + 1 || count > (envelope.len() / WORD) as u64 {
        return Err(broken(format!("it announces {count} pieces")));
    }
    // The cast is lossless: above, the number of pieces was found to be small enough for a usize.
    let words = envelope.split_to(WORD * count as usize);
    let mut total = 0u64;
    let mut pieces = Vec::with_capacity(count as usize);
    for &word in words.as_chunks().0 {
        let length = u64::from_le_bytes(word);
        if length & BULK == 0 {
            if length > envelope.len() as u64 {
                return Err(broken(format!("a piece of {length} bytes is missing")));
            }
            pieces.push(Announced::Here(envelope.split_to(length as usize)));
            continue;
        }
        let Some(unit) = Unit::read(length) else {
            return Err(broken(format!("piece {} has an unknown unit", pieces.len())));
        };
        if pieces.is_empty() && unit != Unit::Byte {
            return Err(broken("its head is announced as numbers".into()));
        }
        let length = length & LENGTH;
        total = total.saturating_add(length);
        if length == 0 || total > largest {
            return Err(broken(format!("it announces {total} bytes of bulk data, expected 1 to {largest}")));
        }
        if !length.is_multiple_of(unit.size()) {
            return Err(broken(format!("{length} bytes are not a multiple of {}", unit.size())));
        }
        let length =
            usize::try_from(length).map_err(|_| broken(format!("{length} bytes do not fit into memory")))?;
        pieces.push(Announced::Bulk { length, unit });
    }
    if !envelope.is_empty() {
        return Err(broken(format!("{} bytes are left over", envelope.len())));
    }
    Ok(pieces)
}

/// Reads the length of an envelope that follows as bulk data.
///
/// # Errors
/// [`ErrorKind::Wire`] if the length exceeds that of any envelope written by armature.
pub(super) fn read_far(control: &[u8]) -> Result<usize> {
    const LONGEST: usize = WORD * (MOST_PARTS + 2) + INLINE_TOTAL;
    let length = control.try_into().map(u64::from_le_bytes).map_err(|_| {
        wire(format!("the length of an envelope has {} bytes, expected {WORD}", control.len()))
    })?;
    match length {
        // The cast is lossless: the length is at most `LONGEST`, which is a usize.
        1.. if length <= LONGEST as u64 => Ok(length as usize),
        _ => Err(wire(format!("an envelope of {length} bytes is announced, expected at most {LONGEST}"))),
    }
}

pub(super) fn wire(message: String) -> Error {
    Error::new(ErrorKind::Wire, message)
}

#[cfg(test)]
#[path = "envelope_tests.rs"]
mod tests;

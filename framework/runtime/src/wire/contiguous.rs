//! Items that consist of contiguous bytes: `Vec` of numbers, `String`, `Bytes`, `BytesMut`.
//!
//! A batch consists of the lengths of its items in bytes (one `u32` each), followed by the bytes of all items. An item of [`OWN_PART`]
//! bytes or more has the length [`APART`] and is sent as a separate part of the message.

use bytes::{Buf, Bytes, BytesMut};

use super::{OWN_PART, id::Id, reader, reader::Reader, scalar::Scalar};
use crate::comm::Part;
use crate::error::Result;

/// Value in place of an item's length if the item is sent as a separate part of the message.
const APART: u32 = u32::MAX;

/// An item that consists of contiguous bytes, such as a `String` or a `Vec` of numbers.
pub(super) trait ContiguousItem: Sized + Send {
    /// Codec number of the item type in messages, which is never reused for another type.
    const ID: u8;

    /// Size in bytes of an element of the item; encoded lengths must be multiples of this size.
    const UNIT: usize = 1;

    fn bytes(&self) -> &[u8];

    /// Returns the memory of the item as a part of a message (memory that is sent separately), without a copy.
    fn into_part(self) -> Part;

    /// Creates an item from its own part of a message; `None` if the bytes are not a value of the type.
    fn take(part: Part) -> Option<Self>;

    /// Buffer from which [`next`](ContiguousItem::next) takes the items that are not separate parts of the message.
    type Rest;

    fn open(inline: Bytes) -> Self::Rest;

    /// Returns the next item, whose `length` bytes the caller has found to be in the buffer; `None` if the bytes are not a value of the type.
    fn next(rest: &mut Self::Rest, length: usize) -> Option<Self>;

    /// Returns all items of a batch as one buffer without a copy, if the items are contiguous in memory.
    fn joined(items: Vec<Self>) -> Result<Bytes, Vec<Self>> {
        Err(items)
    }
}

impl<P: Scalar> ContiguousItem for Vec<P> {
    const ID: u8 = Id::Vec as u8 + P::ID;
    const UNIT: usize = size_of::<P>();

    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(self)
    }

    fn into_part(self) -> Part {
        Part::of(self)
    }

    fn take(part: Part) -> Option<Self> {
        P::take(part)
    }

    type Rest = Bytes;

    fn open(inline: Bytes) -> Bytes {
        inline
    }

    fn next(rest: &mut Bytes, length: usize) -> Option<Self> {
        let item = P::read(&rest[..length]);
        rest.advance(length);
        item
    }
}

impl ContiguousItem for String {
    const ID: u8 = Id::String as u8;

    fn bytes(&self) -> &[u8] {
        self.as_bytes()
    }

    fn into_part(self) -> Part {
        Part::Bytes(self.into())
    }

    fn take(part: Part) -> Option<Self> {
        String::from_utf8(Vec::from(part.into_bytes())).ok()
    }

    type Rest = Bytes;

    fn open(inline: Bytes) -> Bytes {
        inline
    }

    fn next(rest: &mut Bytes, length: usize) -> Option<Self> {
        let item = std::str::from_utf8(&rest[..length]).ok().map(str::to_string);
        rest.advance(length);
        item
    }
}

impl ContiguousItem for Bytes {
    const ID: u8 = Id::Bytes as u8;

    fn bytes(&self) -> &[u8] {
        self
    }

    fn into_part(self) -> Part {
        Part::Bytes(self)
    }

    fn take(part: Part) -> Option<Self> {
        Some(part.into_bytes())
    }

    type Rest = Bytes;

    fn open(inline: Bytes) -> Bytes {
        inline
    }

    fn next(rest: &mut Bytes, length: usize) -> Option<Self> {
        // Decoded items share the received buffer, which avoids a copy. The buffer is freed with the last of these items.
        Some(rest.split_to(length))
    }
}

impl ContiguousItem for BytesMut {
    const ID: u8 = Id::BytesMut as u8;

    fn bytes(&self) -> &[u8] {
        self
    }

    fn into_part(self) -> Part {
        Part::Bytes(self.freeze())
    }

    fn take(part: Part) -> Option<Self> {
        Some(Self::open(part.into_bytes()))
    }

    type Rest = BytesMut;

    fn open(inline: Bytes) -> BytesMut {
        // A received buffer becomes a `BytesMut` without a copy if it has no other owner.
        inline.try_into_mut().unwrap_or_else(|shared| BytesMut::from(&shared[..]))
    }

    fn next(rest: &mut BytesMut, length: usize) -> Option<Self> {
        Some(rest.split_to(length))
    }

    fn joined(items: Vec<Self>) -> Result<Bytes, Vec<Self>> {
        let adjacent = items.windows(2).all(|pair| pair[0].as_ptr_range().end == pair[1].as_ptr());
        if !adjacent {
            return Err(items);
        }
        // Buffers that are adjacent pieces of one allocation are joined without a copy.
        let whole = items.into_iter().reduce(|mut whole, next| {
            whole.unsplit(next);
            whole
        });
        Ok(whole.unwrap_or_default().freeze())
    }
}

pub(super) fn encode<B: ContiguousItem>(items: Vec<B>, head: &mut Vec<u8>, parts: &mut Vec<Part>) {
    let mut lengths: Vec<u32> = Vec::with_capacity(items.len());
    let mut inline = 0;
    for size in items.iter().map(|item| item.bytes().len()) {
        // The cast to `u32` is lossless for an item that is shorter than [`OWN_PART`].
        lengths.push(if size < OWN_PART { size as u32 } else { APART });
        inline += if size < OWN_PART { size } else { 0 };
    }
    let joined = if inline >= OWN_PART && !lengths.contains(&APART) { B::joined(items) } else { Err(items) };

    head.reserve(reader::START + size_of_val(&lengths[..]) + if joined.is_ok() { 0 } else { inline });
    reader::put_start(head, B::ID, joined.is_ok());
    head.extend_from_slice(bytemuck::cast_slice(&lengths));
    match joined {
        Ok(whole) => parts.push(whole.into()),
        Err(items) => {
            for item in items {
                if item.bytes().len() < OWN_PART {
                    head.extend_from_slice(item.bytes());
                } else {
                    parts.push(item.into_part());
                }
            }
        }
    }
}

pub(super) fn decode<B: ContiguousItem>(mut reader: Reader, count: usize) -> Result<Vec<B>> {
    let lengths = reader.u32s(count)?;
    let bulk = reader.bulk()?.into_bytes();
    let inline: u64 =
        lengths.iter().filter(|&&length| length != APART).map(|&length| u64::from(length)).sum();
    if inline != bulk.len() as u64 {
        return Err(reader.error(format!("its lengths add up to {inline} bytes, got {}", bulk.len())));
    }

    let mut rest = B::open(bulk);
    let mut items = Vec::with_capacity(count);
    for length in lengths {
        let part = if length == APART { Some(reader.part()?) } else { None };
        let size = part.as_ref().map_or(length as usize, Part::len);
        if !size.is_multiple_of(B::UNIT) {
            return Err(
                reader.error(format!("expected lengths in multiples of {} bytes, got {size}", B::UNIT))
            );
        }
        let item = match part {
            Some(part) => B::take(part),
            None => B::next(&mut rest, size),
        };
        items.push(item.ok_or_else(|| reader.error("some of its bytes are not a value of that type"))?);
    }
    reader.end()?;
    Ok(items)
}

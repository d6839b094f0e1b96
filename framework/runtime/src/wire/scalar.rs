//! Numbers, `bool` and `char`: a batch of them is its memory.

use bytes::Bytes;

use super::{OWN_PART, reader::Reader};
use crate::error::Result;

/// A type whose `Vec` can be sent as it lies in memory.
pub(super) trait Scalar: bytemuck::NoUninit + Send {
    /// Its number in frames. Never reused.
    const ID: u8;

    /// Values from bytes that are a whole number of them; `None` if some bits are not a value of the type.
    fn read(bytes: &[u8]) -> Option<Vec<Self>>;

    /// The same from a buffer that may be taken over instead of copied.
    fn take(bytes: Bytes) -> Option<Vec<Self>> {
        Self::read(&bytes)
    }

    /// The vector's memory as a buffer, without a copy.
    fn give(values: Vec<Self>) -> Bytes {
        Bytes::from_owner(Memory(values))
    }
}

/// A vector seen as its bytes.
pub(super) struct Memory<P>(pub(super) Vec<P>);

impl<P: bytemuck::NoUninit> AsRef<[u8]> for Memory<P> {
    fn as_ref(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

macro_rules! numbers {
    ($($number:ty = $id:expr),*) => {$(
        impl Scalar for $number {
            const ID: u8 = $id;

            #[inline]
            fn read(bytes: &[u8]) -> Option<Vec<Self>> {
                // The compiler makes one vectorised copy of this, and nothing is zeroed first.
                let (values, _) = bytes.as_chunks::<{ size_of::<$number>() }>();
                Some(values.iter().map(|value| <$number>::from_ne_bytes(*value)).collect())
            }
        }
    )*};
}

numbers!(
    i8 = 2,
    u16 = 3,
    i16 = 4,
    u32 = 5,
    i32 = 6,
    u64 = 7,
    i64 = 8,
    u128 = 9,
    i128 = 10,
    usize = 11,
    isize = 12,
    f32 = 13,
    f64 = 14
);

impl Scalar for u8 {
    const ID: u8 = 1;

    fn read(bytes: &[u8]) -> Option<Vec<u8>> {
        Some(bytes.to_vec())
    }

    fn take(bytes: Bytes) -> Option<Vec<u8>> {
        // Free if the buffer is a vector that nobody else holds.
        Some(Vec::from(bytes))
    }

    fn give(values: Vec<u8>) -> Bytes {
        Bytes::from(values)
    }
}

impl Scalar for bool {
    const ID: u8 = 15;

    fn read(bytes: &[u8]) -> Option<Vec<bool>> {
        bytes.iter().all(|&byte| byte <= 1).then(|| bytes.iter().map(|&byte| byte == 1).collect())
    }
}

impl Scalar for char {
    const ID: u8 = 16;

    fn read(bytes: &[u8]) -> Option<Vec<char>> {
        let (values, _) = bytes.as_chunks::<4>();
        values.iter().map(|value| char::from_u32(u32::from_ne_bytes(*value))).collect()
    }
}

/// Appends the batch to the frame: inline where it is small, as a part without a copy where it is not.
pub(super) fn encode<P: Scalar>(items: Vec<P>, head: &mut Vec<u8>, parts: &mut Vec<Bytes>) {
    super::reader::put_memory(items, P::ID, &[], head, parts, P::give);
}

/// Reads `count` values.
pub(super) fn decode<P: Scalar>(mut reader: Reader, count: usize) -> Result<Vec<P>> {
    let bytes = reader.memory(size_of::<P>(), count)?;
    let values = if bytes.len() >= OWN_PART { P::take(bytes) } else { P::read(&bytes) };
    values.ok_or_else(|| reader.error("some of its bits are not a value of that type"))
}

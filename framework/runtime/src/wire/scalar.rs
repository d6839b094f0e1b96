//! Numbers, `bool` and `char`: a batch of such values is encoded as its memory.

use super::{OWN_PART, id::Id, memory, reader::Reader};
use crate::comm::Part;
use crate::error::Result;

/// A type of numbers whose `Vec` can be sent as its memory.
pub(super) trait Scalar: bytemuck::NoUninit + Send {
    /// Codec number of the type in messages, which is never reused for another type.
    const ID: u8;

    /// Returns the values that `bytes` contain; `None` if some bits are not a value of the type. The length must be a multiple of the type's
    /// size.
    fn read(bytes: &[u8]) -> Option<Vec<Self>>;

    /// Returns the values in a part of a message (memory that was sent separately), without a copy if the part is aligned for these values.
    fn take(part: Part) -> Option<Vec<Self>> {
        Self::read(part.bytes())
    }
}

macro_rules! numbers {
    ($($number:ty = $id:ident),*) => {$(
        impl Scalar for $number {
            const ID: u8 = Id::$id as u8;

            #[inline]
            fn read(bytes: &[u8]) -> Option<Vec<Self>> {
                Some(memory::copy(bytes))
            }

            fn take(part: Part) -> Option<Vec<Self>> {
                match part.into_values() {
                    Ok(values) => Some(values),
                    Err(part) => Self::read(part.bytes()),
                }
            }
        }
    )*};
}

numbers! {
    u8 = U8, i8 = I8, u16 = U16, i16 = I16, u32 = U32, i32 = I32, u64 = U64, i64 = I64, u128 = U128, i128 = I128,
    usize = Usize, isize = Isize, f32 = F32, f64 = F64
}

impl Scalar for bool {
    const ID: u8 = Id::Bool as u8;

    fn read(bytes: &[u8]) -> Option<Vec<bool>> {
        bytes.iter().all(|&byte| byte <= 1).then(|| bytes.iter().map(|&byte| byte == 1).collect())
    }
}

impl Scalar for char {
    const ID: u8 = Id::Char as u8;

    fn read(bytes: &[u8]) -> Option<Vec<char>> {
        let (values, _) = bytes.as_chunks::<4>();
        values.iter().map(|value| char::from_u32(u32::from_ne_bytes(*value))).collect()
    }

    fn take(part: Part) -> Option<Vec<char>> {
        match part.into_values::<u32>() {
            // The conversion from `u32` to `char` works in place: the standard library reuses the allocation of the source vector.
            Ok(values) => values.into_iter().map(char::from_u32).collect(),
            Err(part) => Self::read(part.bytes()),
        }
    }
}

/// Appends a batch of numbers to a message: to its head (first bytes) if the batch is small, otherwise as a part (memory that is sent separately)
/// without a copy.
pub(super) fn encode<P: Scalar>(items: Vec<P>, head: &mut Vec<u8>, parts: &mut Vec<Part>) {
    super::reader::put_memory(items, P::ID, &[], head, parts);
}

pub(super) fn decode<P: Scalar>(mut reader: Reader, count: usize) -> Result<Vec<P>> {
    let bulk = reader.memory(size_of::<P>(), count)?;
    let values = if bulk.len() >= OWN_PART { P::take(bulk) } else { P::read(bulk.bytes()) };
    values.ok_or_else(|| reader.error("some of its bits are not a value of that type"))
}

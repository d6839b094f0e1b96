//! What an item was encoded into, as one run of bytes for a file: in front the number of parts and the lengths of the head and of each of them.

use bytes::{Buf, Bytes};

use crate::comm::Part;

/// What stands in front of the head and the parts.
pub(crate) fn lengths(head: &[u8], parts: &[Part]) -> Vec<u8> {
    let mut lengths = (parts.len() as u32).to_le_bytes().to_vec();
    lengths.extend_from_slice(&(head.len() as u64).to_le_bytes());
    for part in parts {
        lengths.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    lengths
}

/// The head and the parts again, which share the memory; `None` if the bytes are something else.
pub(crate) fn unpack(mut bytes: Bytes) -> Option<(Bytes, Vec<Part>)> {
    let count = bytes.try_get_u32_le().ok()? as usize;
    let lengths =
        count.checked_add(1)?.checked_mul(size_of::<u64>()).filter(|&length| length <= bytes.len())?;
    let mut lengths = bytes.split_to(lengths);
    let mut pieces = Vec::with_capacity(count + 1);
    while let Ok(length) = lengths.try_get_u64_le() {
        let length = usize::try_from(length).ok().filter(|&length| length <= bytes.len())?;
        pieces.push(bytes.split_to(length));
    }
    let mut pieces = pieces.into_iter();
    let head = pieces.next()?;
    bytes.is_empty().then(|| (head, pieces.map(Part::from).collect()))
}

//! Encoding of an item as contiguous bytes for a file. An encoded item has a head (small data) and parts (large data), like a message; the file
//! contains the number of parts, the lengths of the head and of each part, then the head and the parts.

use bytes::{Buf, Bytes};

use crate::comm::Part;

/// Returns the beginning of the file of an encoded item: the number of its parts (large data), and the lengths of its head (small data) and of each
/// part.
pub(crate) fn lengths(head: &[u8], parts: &[Part]) -> Vec<u8> {
    let mut lengths = (parts.len() as u32).to_le_bytes().to_vec();
    lengths.extend_from_slice(&(head.len() as u64).to_le_bytes());
    for part in parts {
        lengths.extend_from_slice(&(part.len() as u64).to_le_bytes());
    }
    lengths
}

/// Returns the head (small data) and the parts (large data) of an encoded item, which share the memory of `bytes`; `None` if the bytes are malformed.
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

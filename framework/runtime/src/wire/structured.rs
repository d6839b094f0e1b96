//! Everything that has no faster way: serde, by bincode.
//!
//! After the start of the frame stand a fingerprint of the type's name and the encoded items, end to end. That they mean
//! the same to whoever reads them is looked after by [`Agreement`].

use serde::de::DeserializeOwned;

use super::{
    Item,
    agree::Agreement,
    id::Id,
    reader::{self, Reader},
    value,
};
use crate::error::Result;

/// Its number in frames.
pub(super) const ID: u8 = Id::Structured as u8;

/// A number that differs, very likely, where two ranks mean different types (FNV-1a of the type's name).
pub(super) fn fingerprint<T>() -> u32 {
    std::any::type_name::<T>()
        .bytes()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Appends the batch to the frame.
pub(super) fn encode<T: Item>(items: Vec<T>, head: &mut Vec<u8>) -> Result<()> {
    reader::put_start(head, ID, false);
    head.extend_from_slice(&fingerprint::<T>().to_ne_bytes());
    let start = head.len();
    let mut batch = Agreement::of::<T>().batch(items.len());
    for item in &items {
        batch.put(item, head)?;
    }
    // Items may take no bytes and yet have a size in memory. So that the receiver never makes more items than it
    // got bytes for, the frame is filled up to one byte an item.
    let least = start + if size_of::<T>() == 0 { 0 } else { items.len() };
    if head.len() < least {
        head.resize(least, 0);
    }
    Ok(())
}

/// Reads `count` items.
pub(super) fn decode<T: DeserializeOwned>(mut reader: Reader, count: usize) -> Result<Vec<T>> {
    let found = reader.u32()?;
    if found != fingerprint::<T>() {
        return Err(reader.error("the sender means another type of item; do all ranks run the same build?"));
    }
    let bytes = reader.bulk()?.into_bytes();
    reader.end()?;
    let fewest = if size_of::<T>() == 0 { 0 } else { count };
    if bytes.len() < fewest {
        return Err(
            reader.error(format!("expected at least {count} bytes for {count} items, got {}", bytes.len()))
        );
    }
    let (items, used) = value::get_many(&bytes, count).map_err(|e| reader.error(e))?;
    // What follows can only be the filling of `encode`.
    if bytes.len() > used.max(fewest) || bytes[used..].iter().any(|&byte| byte != 0) {
        return Err(reader.error(format!("{} bytes too many", bytes.len() - used)));
    }
    Ok(items)
}

//! Encoding by serde with bincode, for all types without a faster codec.
//!
//! After the header of the batch follow a fingerprint of the type's name and the encoded items. [`Agreement`] checks that the items are read as
//! they were written.

use serde::de::DeserializeOwned;

use super::{
    Item,
    agree::Agreement,
    id::Id,
    reader::{self, Reader},
    value,
};
use crate::error::Result;

pub(super) const ID: u8 = Id::Structured as u8;

/// Returns a number that very probably differs if two ranks use different types (FNV-1a of the type's name).
pub(super) fn fingerprint<T>() -> u32 {
    std::any::type_name::<T>()
        .bytes()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

pub(super) fn encode<T: Item>(items: Vec<T>, head: &mut Vec<u8>) -> Result<()> {
    reader::put_start(head, ID, false);
    head.extend_from_slice(&fingerprint::<T>().to_ne_bytes());
    let start = head.len();
    let mut batch = Agreement::of::<T>().batch(items.len());
    for item in &items {
        batch.encode_into(item, head)?;
    }
    // Items whose type has a size in memory may be encoded as no bytes. The message is padded to one byte per item, so that the receiver never
    // creates more items than it has received bytes.
    let least = start + if size_of::<T>() == 0 { 0 } else { items.len() };
    if head.len() < least {
        head.resize(least, 0);
    }
    Ok(())
}

pub(super) fn decode<T: DeserializeOwned>(mut reader: Reader, count: usize) -> Result<Vec<T>> {
    let found = reader.u32()?;
    if found != fingerprint::<T>() {
        return Err(reader.error("the sender uses another item type; do all ranks run the same build?"));
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
    // After the last item of a batch only zero bytes may follow, with which `encode` pads the batch.
    if bytes.len() > used.max(fewest) || bytes[used..].iter().any(|&byte| byte != 0) {
        return Err(reader.error(format!("{} bytes too many", bytes.len() - used)));
    }
    Ok(items)
}

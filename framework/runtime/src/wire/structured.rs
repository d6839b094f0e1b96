//! Everything that has no faster way: serde, by bincode.
//!
//! After the start of the frame stand a fingerprint of the type's name and the encoded items, end to end. That they mean
//! the same to whoever reads them is looked after by [`Agreement`].

use std::marker::PhantomData;

use bincode::error::{DecodeError, EncodeError};
use serde::{Serialize, de::DeserializeOwned};

use super::{
    Item,
    agree::Agreement,
    bounded::{Bounds, Many, One, budget},
    reader::{self, Reader},
};
use crate::error::{Error, ErrorKind, Result};

/// Its number in frames.
pub(super) const ID: u8 = 0x60;

/// How bincode writes: variable-length integers, little-endian. It needs no limit of its own, see `bounded`.
fn config() -> bincode::config::Configuration {
    bincode::config::standard()
}

/// A number that differs, very likely, where two ranks mean different types (FNV-1a of the type's name).
pub(super) fn fingerprint<T>() -> u32 {
    std::any::type_name::<T>()
        .bytes()
        .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193))
}

/// Appends one value to `into`; in an error it is `what`.
#[inline]
pub(super) fn put<T: Serialize>(value: &T, what: &str, into: &mut Vec<u8>) -> Result<()> {
    bincode::serde::encode_into_std_write(value, into, config()).map(drop).map_err(|error| {
        let why = match error {
            // What the type's own code says, as it is.
            EncodeError::OtherString(text) => text,
            other => other.to_string(),
        };
        Error::new(ErrorKind::Wire, format!("{what} could not be encoded: {why}"))
    })
}

/// What is wrong with bytes, or with who reads them.
fn reason(error: DecodeError) -> String {
    use bincode::serde::DecodeError::{AnyNotSupported, IdentifierNotSupported, IgnoredAnyNotSupported};
    match error {
        DecodeError::OtherString(text) => text,
        DecodeError::Serde(AnyNotSupported | IdentifierNotSupported | IgnoredAnyNotSupported) => {
            "its Deserialize asks what comes next, as that of types with `untagged` or `tag` does, and the bytes do not \
             tell"
                .to_string()
        }
        other => other.to_string(),
    }
}

/// Writes one value, as [`put`] does.
pub(super) fn write<T: Serialize>(value: &T, into: &mut impl std::io::Write) -> Result<(), String> {
    bincode::serde::encode_into_std_write(value, into, config()).map(drop).map_err(|e| e.to_string())
}

/// Reads the one value that `bytes` hold.
pub(super) fn get<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let budget = budget(bytes.len());
    let seed = One(Bounds::new(&budget), PhantomData);
    let (value, used) = bincode::serde::seed_decode_from_slice(seed, bytes, config()).map_err(reason)?;
    match bytes.len() - used {
        0 => Ok(value),
        more => Err(format!("{more} bytes too many")),
    }
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
    let budget = budget(bytes.len());
    let seed = Many::<T>(Bounds::new(&budget), count, PhantomData);
    let (items, used) = bincode::serde::seed_decode_from_slice(seed, &bytes, config())
        .map_err(|e| reader.error(reason(e)))?;
    // What follows can only be the filling of `encode`.
    if bytes.len() > used.max(fewest) || bytes[used..].iter().any(|&byte| byte != 0) {
        return Err(reader.error(format!("{} bytes too many", bytes.len() - used)));
    }
    Ok(items)
}

//! Encoding and decoding of single values by serde and bincode, for types without a faster codec. Only this module and `bounded` depend on
//! bincode.

use std::marker::PhantomData;

use bincode::error::{DecodeError, EncodeError};
use serde::{Serialize, de::DeserializeOwned};

use super::bounded::{Bounds, Many, One, budget};
use crate::error::{Error, ErrorKind, Result};

/// Returns the configuration of bincode: variable-length integers, little-endian. The configuration has no limit, because `bounded` limits what
/// is read.
fn config() -> bincode::config::Configuration {
    bincode::config::standard()
}

#[inline]
pub(super) fn encode_into<T: Serialize>(value: &T, what: &str, into: &mut Vec<u8>) -> Result<()> {
    bincode::serde::encode_into_std_write(value, into, config()).map(drop).map_err(|error| {
        let why = match error {
            // The error message of the type's own `Serialize` code is returned unchanged.
            EncodeError::OtherString(text) => text,
            other => other.to_string(),
        };
        Error::new(ErrorKind::Wire, format!("{what} could not be encoded: {why}"))
    })
}

fn reason(error: DecodeError) -> String {
    use bincode::serde::DecodeError::{AnyNotSupported, IdentifierNotSupported, IgnoredAnyNotSupported};
    match error {
        DecodeError::OtherString(text) => text,
        DecodeError::Serde(AnyNotSupported | IdentifierNotSupported | IgnoredAnyNotSupported) => {
            "its Deserialize needs the type of the next value, as with `untagged` or `tag`, but the format contains no types"
                .to_string()
        }
        other => other.to_string(),
    }
}

pub(super) fn write<T: Serialize>(value: &T, into: &mut impl std::io::Write) -> Result<(), String> {
    bincode::serde::encode_into_std_write(value, into, config()).map(drop).map_err(|e| e.to_string())
}

/// Reads the value in `bytes`, which must contain nothing else.
pub(super) fn get<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    let budget = budget(bytes.len());
    let seed = One(Bounds::new(&budget), PhantomData);
    let (value, used) = bincode::serde::seed_decode_from_slice(seed, bytes, config()).map_err(reason)?;
    match bytes.len() - used {
        0 => Ok(value),
        more => Err(format!("{more} bytes too many")),
    }
}

/// Reads `count` values from the start of `bytes`; returns the values and the number of bytes that they took.
pub(super) fn get_many<T: DeserializeOwned>(bytes: &[u8], count: usize) -> Result<(Vec<T>, usize), String> {
    let budget = budget(bytes.len());
    let seed = Many::<T>(Bounds::new(&budget), count, PhantomData);
    bincode::serde::seed_decode_from_slice(seed, bytes, config()).map_err(reason)
}

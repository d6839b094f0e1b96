//! Encoding of control messages.

use serde::{Serialize, de::DeserializeOwned};

use super::value;
use crate::error::{Error, ErrorKind, Result};

/// Maximum size of a control message in bytes. Bulk data is sent as items, in other messages.
const LONGEST: usize = 64 * 1024 * 1024;

/// Encodes a control message.
///
/// # Errors
/// If the value cannot be encoded, or has more than 64 MiB.
pub(crate) fn to_bytes<T: Serialize>(value: &T) -> Result<Vec<u8>> {
    let mut bytes = Vec::with_capacity(64);
    append(value, &mut bytes).map(|()| bytes)
}

/// Appends an encoded control message to `bytes`.
///
/// # Errors
/// The errors of [`to_bytes`].
pub(crate) fn append<T: Serialize>(value: &T, bytes: &mut Vec<u8>) -> Result<()> {
    let start = bytes.len();
    value::encode_into(value, std::any::type_name::<T>(), bytes)?;
    check_length::<T>(bytes.len() - start)
}

/// Decodes a control message from bytes, which must contain one message and nothing else.
///
/// # Errors
/// If the bytes were not written by [`to_bytes`]. The allocated memory is at most a small multiple of the size of the bytes.
pub(crate) fn from_bytes<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
    check_length::<T>(bytes.len())?;
    value::get(bytes).map_err(|why| {
        let what = std::any::type_name::<T>();
        Error::new(ErrorKind::Wire, format!("control message {what} of {} bytes: {why}", bytes.len()))
    })
}

fn check_length<T>(length: usize) -> Result<()> {
    if length <= LONGEST {
        return Ok(());
    }
    let what = std::any::type_name::<T>();
    let message = format!("control message {what}: expected at most {LONGEST} bytes, got {length}");
    Err(Error::new(ErrorKind::Wire, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_round_trips() {
        let sent = (7_u64, String::from("ready"), vec![(1_usize, 2.5_f64)]);
        let bytes = to_bytes(&sent).unwrap();
        assert_eq!(from_bytes::<(u64, String, Vec<(usize, f64)>)>(&bytes).unwrap(), sent);
    }

    #[test]
    fn trailing_bytes_are_an_error() {
        let mut bytes = to_bytes(&5_u32).unwrap();
        bytes.push(0);
        let error = from_bytes::<u32>(&bytes).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Wire);
        assert!(error.message().contains("1 bytes too many"), "{error}");
    }

    #[test]
    fn truncated_message_is_an_error() {
        let bytes = to_bytes(&String::from("eleven byte")).unwrap();
        for length in 0..bytes.len() {
            assert_eq!(from_bytes::<String>(&bytes[..length]).unwrap_err().kind(), ErrorKind::Wire);
        }
    }
}

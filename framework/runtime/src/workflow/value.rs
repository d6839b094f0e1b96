//! Value of a task as bytes: encoded once, on the rank that computes it, and decoded by each task that reads it.

use bytes::Bytes;

use crate::comm::Part;
use crate::comm::message::{Body, Put, Take};
use crate::error::{Error, ErrorKind, Result};
use crate::wire::{Codec, Item, header_length, packed};

/// Encoded value (result) of a task. Clones share the memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Value {
    head: Bytes,
    parts: Vec<Part>,
}

impl Value {
    /// Encodes a value, which may call user code.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the value cannot be encoded.
    pub(super) fn encode<T: Item>(value: T, codec: &Codec<T>) -> Result<Self> {
        let (mut head, mut parts) = (Vec::new(), Vec::new());
        codec.encode(vec![value], &mut head, &mut parts)?;
        Ok(Value { head: head.into(), parts })
    }

    /// Returns the value of a command, which is empty: its results are files.
    pub(super) fn nothing() -> Result<Self> {
        Value::encode((), &Codec::of_type())
    }

    /// Decodes the value.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if the value has another type.
    pub(super) fn decode<T: Item>(self) -> Result<T> {
        let value = Codec::of_type().decode(self.head, self.parts, 1)?.pop();
        value.ok_or_else(|| Error::new(ErrorKind::Wire, "the value is empty"))
    }

    /// Returns the size of the value in bytes, without the header of its encoding. This is the size that plans use.
    pub(super) fn bytes(&self) -> u64 {
        let content = self.head.len().saturating_sub(header_length(&self.head));
        (content + self.parts.iter().map(Part::len).sum::<usize>()) as u64
    }

    /// Returns the bytes of a file that stores the value: a header, and an iterator over the parts of the value, which follow the header.
    /// [`unpack`](Value::unpack) reads the file.
    pub(super) fn pieces(&self) -> (Vec<u8>, impl Iterator<Item = &[u8]>) {
        let pieces = std::iter::once(&self.head[..]).chain(self.parts.iter().map(Part::bytes));
        (packed::lengths(&self.head, &self.parts), pieces)
    }

    /// Returns true if two task values share their memory, or are small and equal.
    #[cfg(test)]
    pub(super) fn is_same(&self, other: &Value) -> bool {
        match (self.parts.first(), other.parts.first()) {
            (Some(part), Some(of_other)) => part.bytes().as_ptr() == of_other.bytes().as_ptr(),
            // A small value is completely in its head and has no separate memory (parts) whose address could be compared.
            _ => self == other,
        }
    }

    pub(super) fn unpack(bytes: Bytes) -> Option<Self> {
        packed::unpack(bytes).map(|(head, parts)| Value { head, parts })
    }
}

impl Put for Value {
    fn put(self, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        head.extend_from_slice(&self.head);
        parts.extend(self.parts);
        Ok(())
    }
}

impl Take for Value {
    fn take(body: &mut Body) -> Result<Self> {
        let (head, parts) = body.rest();
        Ok(Value { head, parts })
    }
}

#[cfg(test)]
mod tests {
    use super::super::messages::Content;
    use super::*;
    use crate::comm::message::{Encode, received};

    #[test]
    fn values_round_trip_through_messages_and_files() {
        fn check<T: Item + PartialEq + Clone + std::fmt::Debug>(result: T) {
            let value = Value::encode(result.clone(), &Codec::of_type()).unwrap();
            let message = received(2, Content::Value(70_000, value.clone()).encode(1).unwrap());
            let Content::Value(task, back) = Content::decode(message).unwrap() else { panic!("not a value") };
            assert_eq!((task, &back), (70_000, &value));
            let (lengths, pieces) = value.pieces();
            let file: Vec<u8> = pieces.fold(lengths, |file, piece| [&file, piece].concat());
            for cut in 0..file.len() {
                assert_eq!(Value::unpack(Bytes::copy_from_slice(&file[..cut])), None, "cut at {cut}");
            }
            let back = Value::unpack(file.into()).unwrap();
            assert_eq!(back.bytes(), value.bytes());
            assert_eq!(back.decode::<T>().unwrap(), result);
        }
        check(7_u64);
        check(vec![String::from("a"), String::new()]);
        check((1_u8, Some(vec![0.5; 3])));
        check(());
        let bytes = |value: Result<Value>| value.unwrap().bytes();
        assert_eq!(bytes(Value::nothing()), 0);
        assert_eq!(bytes(Value::encode(7_u64, &Codec::of_type())), 8);
        assert_eq!(bytes(Value::encode("abc".to_string(), &Codec::of_type())), 3);
        assert_eq!(bytes(Value::encode((1_u8, true), &Codec::of_type())), 2);
        let large = vec![1.5; 9_000];
        let value = Value::encode(large.clone(), &Codec::of_type()).unwrap();
        assert!(value.bytes() == 72_000 && !value.parts.is_empty());
        assert_eq!(value.decode::<Vec<f64>>().unwrap(), large);
    }

    #[test]
    fn wrong_types_and_damaged_messages_are_errors() {
        let value = Value::encode(7_u64, &Codec::of_type()).unwrap();
        assert_eq!(value.decode::<String>().unwrap_err().kind(), ErrorKind::Wire);
        let mut cut = received(2, Content::Value(3, Value::nothing().unwrap()).encode(1).unwrap());
        cut.body.truncate(2);
        assert!(Content::decode(cut).is_err());
        assert_eq!(Value::unpack(Bytes::from(u64::MAX.to_le_bytes().to_vec())), None);
    }
}

//! Encoding of the units of a loop (rows or indices with their data) in a message between ranks. Values are encoded in pieces of limited size, each
//! preceded by its lengths. Bulk data are separate parts of the message.

use bytes::{Buf, Bytes};

use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};
use crate::wire::Codec;

/// Maximum number of values in one part of an encoded message; more values are encoded in several parts, each with its lengths.
const MOST: usize = 1 << 24;

/// Writer of a message that contains units (rows or indices) of a loop.
#[derive(Debug, Default)]
pub struct Packer {
    head: Vec<u8>,
    parts: Vec<Part>,
}

impl Packer {
    pub(super) fn behind(head: Vec<u8>, parts: Vec<Part>) -> Self {
        Packer { head, parts }
    }

    pub(super) fn number(&mut self, number: u64) {
        self.head.extend_from_slice(&number.to_le_bytes());
    }

    /// Appends values to the message, but not the number of the values, which the receiver knows.
    pub(super) fn items<T>(&mut self, codec: &Codec<T>, mut items: Vec<T>) -> Result<()> {
        loop {
            let rest = if items.len() > MOST { items.split_off(MOST) } else { Vec::new() };
            // The two lengths that precede this piece (part of the values) are filled in after its values are encoded.
            let at = self.head.len();
            let parts = self.parts.len();
            self.number(0);
            self.number(0);
            let start = self.head.len();
            codec.encode(items, &mut self.head, &mut self.parts)?;
            let length = (self.head.len() - start) as u64;
            let parts = (self.parts.len() - parts) as u64;
            self.head[at..at + 8].copy_from_slice(&length.to_le_bytes());
            self.head[at + 8..start].copy_from_slice(&parts.to_le_bytes());
            if rest.is_empty() {
                return Ok(());
            }
            items = rest;
        }
    }

    pub(super) fn finish(self) -> (Vec<u8>, Vec<Part>) {
        (self.head, self.parts)
    }
}

/// Reader of a message that contains units (rows or indices) of a loop. It checks every length that it reads.
#[derive(Debug)]
pub struct Unpacker {
    head: Bytes,
    parts: std::vec::IntoIter<Part>,
}

impl Unpacker {
    pub(super) fn new(head: Bytes, parts: Vec<Part>) -> Self {
        Unpacker { head, parts: parts.into_iter() }
    }

    pub(super) fn error(&self, text: impl std::fmt::Display) -> Error {
        Error::new(ErrorKind::Wire, format!("units of a loop: {text}"))
    }

    pub(super) fn number(&mut self) -> Result<u64> {
        self.head.try_get_u64_le().map_err(|short| {
            self.error(format!("expected {} more bytes, got {}", short.requested, short.available))
        })
    }

    pub(super) fn count(&mut self) -> Result<usize> {
        let number = self.number()?;
        usize::try_from(number)
            .map_err(|_| self.error(format!("a count of {number} exceeds the address space")))
    }

    pub(super) fn items<T>(&mut self, codec: &Codec<T>, count: usize) -> Result<Vec<T>> {
        let mut items = self.piece(codec, count.min(MOST))?;
        while items.len() < count {
            items.append(&mut self.piece(codec, (count - items.len()).min(MOST))?);
        }
        Ok(items)
    }

    fn piece<T>(&mut self, codec: &Codec<T>, count: usize) -> Result<Vec<T>> {
        let (length, parts) = (self.count()?, self.count()?);
        if length > self.head.len() || parts > self.parts.len() {
            return Err(self.error(format!(
                "expected {length} more bytes and {parts} parts, got {} and {}",
                self.head.len(),
                self.parts.len()
            )));
        }
        codec.decode(self.head.split_to(length), self.parts.by_ref().take(parts).collect(), count)
    }

    pub(super) fn end(&self) -> Result<()> {
        if self.head.is_empty() && self.parts.len() == 0 {
            return Ok(());
        }
        Err(self.error(format!("{} bytes and {} parts too many", self.head.len(), self.parts.len())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_values_round_trip() {
        let numbers: Vec<f64> = (0..10_000).map(f64::from).collect();
        let mut packer = Packer::behind(vec![7], Vec::new());
        packer.number(3);
        packer.items(&Codec::plain(), vec![1_u8, 2, 3]).unwrap();
        packer.items(&Codec::plain(), numbers.clone()).unwrap();
        packer.items(&Codec::<String>::of_type(), vec![]).unwrap();
        let (head, parts) = packer.finish();
        assert_eq!((head[0], parts.len()), (7, 1), "what is large is a part of its own");
        let open =
            |cut: usize| Unpacker::new(Bytes::copy_from_slice(&head[1..head.len() - cut]), parts.clone());
        let mut unpacker = open(0);
        assert_eq!(unpacker.count().unwrap(), 3);
        assert_eq!(unpacker.items::<u8>(&Codec::plain(), 3).unwrap(), [1, 2, 3]);
        assert!(unpacker.end().is_err());
        assert_eq!(unpacker.items::<f64>(&Codec::plain(), 10_000).unwrap(), numbers);
        assert!(unpacker.items::<String>(&Codec::of_type(), 0).unwrap().is_empty());
        unpacker.end().unwrap();
        for cut in 1..head.len() {
            let mut unpacker = open(cut);
            let got =
                unpacker.count().and_then(|n| unpacker.items::<u8>(&Codec::plain(), n)).and_then(|_| {
                    unpacker.items::<f64>(&Codec::plain(), 10_000)?;
                    unpacker.items::<String>(&Codec::of_type(), 0)
                });
            assert_eq!(got.unwrap_err().kind(), ErrorKind::Wire, "{cut} bytes missing");
        }
    }

    #[test]
    fn wrong_lengths_are_refused() {
        let mut packer = Packer::default();
        packer.number(u64::MAX);
        packer.number(1);
        let (head, parts) = packer.finish();
        let error = Unpacker::new(head.into(), parts).items::<u8>(&Codec::plain(), 1).unwrap_err();
        assert!(error.message().contains("more bytes and 1 parts"), "{error}");
    }
}

//! Items of the benchmark's pipelines: a number, or a block of bytes that begins with a number.

use std::fmt;

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

pub(crate) trait Item:
    Serialize + for<'de> Deserialize<'de> + Clone + Send + Sync + fmt::Debug + 'static
{
    /// Creates an item that contains the number `word`. A block gets `size` bytes.
    fn new(word: u64, size: usize) -> Self;

    fn word(&self) -> u64;

    fn with(self, word: u64) -> Self;
}

impl Item for u64 {
    fn new(word: u64, _: usize) -> Self {
        word
    }

    fn word(&self) -> u64 {
        *self
    }

    fn with(self, word: u64) -> Self {
        word
    }
}

/// Block of bytes, which serde serializes as a whole instead of byte by byte.
#[derive(Clone, Debug)]
pub(crate) struct ByteBlock(Vec<u8>);

impl Item for ByteBlock {
    fn new(word: u64, size: usize) -> Self {
        ByteBlock(vec![0; size]).with(word)
    }

    fn word(&self) -> u64 {
        self.0.first_chunk().map_or(0, |bytes| u64::from_ne_bytes(*bytes))
    }

    fn with(mut self, word: u64) -> Self {
        if let Some(bytes) = self.0.first_chunk_mut() {
            *bytes = word.to_ne_bytes();
        }
        self
    }
}

impl Serialize for ByteBlock {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(&self.0)
    }
}

impl<'de> Deserialize<'de> for ByteBlock {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_byte_buf(Bytes)
    }
}

struct Bytes;

impl Visitor<'_> for Bytes {
    type Value = ByteBlock;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("bytes")
    }

    fn visit_byte_buf<E: Error>(self, bytes: Vec<u8>) -> Result<ByteBlock, E> {
        Ok(ByteBlock(bytes))
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<ByteBlock, E> {
        Ok(ByteBlock(bytes.to_vec()))
    }
}

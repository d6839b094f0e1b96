//! Encoding and decoding of items and control messages.
//!
//! A [`Codec`] encodes a batch of items of one type as the content of a message: small data is appended to the head (the first bytes of the message),
//! bulk data is moved (not copied) into the parts, which are sent separately. Its `decode` is the inverse operation and validates all input. The
//! `README.md` in this directory describes the format and the rules that keep it stable.
//!
//! The encoding of a type depends only on the type:
//!
//! - numbers, `bool` and `char`: their memory, with one copy on each side for a small batch and none for a large one;
//! - `Vec` of numbers, `bool` or `char`, [`String`], [`bytes::Bytes`] and [`bytes::BytesMut`]: lengths, then the bytes; large items are not copied;
//! - all other types: serde with bincode ([`Plain`] and [`raw`] keep bulk numbers fast); the agreement of a type's `Serialize` and
//!   `Deserialize` is checked;
//! - [`Named`] values: MessagePack with the names of fields, as one string of bytes in bincode;
//! - types that are plain old data can be sent as their memory, if the program that builds the pipeline requests it: [`Codec::plain`].

mod agree;
mod bounded;
mod codec;
mod contiguous;
mod digest;
pub(crate) mod erased;
mod frame;
pub(crate) mod header;
mod id;
mod item;
mod memory;
mod movable;
mod named;
pub(crate) mod packed;
mod plain;
mod reader;
mod scalar;
mod shapes;
mod structured;
mod value;
mod watched;
mod weigh;

#[cfg(test)]
mod agree_tests;
#[cfg(test)]
mod hostile;
#[cfg(test)]
mod roundtrip;

pub(crate) use codec::{Codec, header_length};
pub(crate) use frame::{append, from_bytes, to_bytes};
pub use item::Item;
pub use movable::Movable;
pub use named::Named;
pub use plain::{Plain, raw};
pub(crate) use weigh::{weigh, weigh_some};

/// Size in bytes from which on bulk data becomes a separate part of the message instead of being copied into its head. Below this size a copy
/// costs less than another message.
const OWN_PART: usize = 32 * 1024;

/// Maximum number of items in a batch. The maximum bounds the work of decoding a batch whose items take no bytes; for other items the number of
/// received bytes is the bound.
const MOST_ITEMS: usize = 1 << 26;

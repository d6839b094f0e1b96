//! Items and control messages as bytes, and back.
//!
//! A [`Codec`] turns a batch of items of one type into the rest of a message: small things are appended to
//! its head, bulk data is moved (not copied) into its parts. Its `decode` is the inverse and trusts nothing
//! that it reads. The `README.md` beside this file has the layout of the bytes and the rules that keep it so.
//!
//! How a type travels is decided from the type alone:
//!
//! - numbers, `bool` and `char`: their memory, one copy on each side for a small batch, none for a large one;
//! - `Vec` of these, [`String`], [`bytes::Bytes`] and [`bytes::BytesMut`]: lengths, then the bytes; what is
//!   large goes without a copy;
//! - everything else: serde, by bincode ([`Plain`] and [`raw`] keep bulk numbers fast there); that a type's `Serialize` and
//!   `Deserialize` agree is looked after;
//! - types that are plain old data can have their memory sent as it is, but only who builds the pipeline can
//!   say so: [`Codec::plain`].

mod agree;
mod blocks;
mod bounded;
mod codec;
mod digest;
mod frame;
pub(crate) mod header;
mod id;
mod item;
mod memory;
mod movable;
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

pub(crate) use codec::{Codec, notes_of_one};
pub(crate) use frame::{from_bytes, to_bytes};
pub use item::Item;
pub use movable::Movable;
pub use plain::{Plain, raw};
pub(crate) use weigh::{weigh, weigh_some};

/// Bulk data of at least this many bytes becomes a part of its own instead of being copied into the head.
/// Below it one copy costs less than one more message.
const OWN_PART: usize = 32 * 1024;

/// The most items that one batch may hold. It bounds the work that a frame can cause when its items take no
/// bytes at all; for all others the bytes that have arrived are the bound.
const MOST_ITEMS: usize = 1 << 26;

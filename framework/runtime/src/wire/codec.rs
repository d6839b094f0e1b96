//! Which codec a type of items gets, decided once a batch from the type.

use std::{any::Any, fmt};

use bytes::{Bytes, BytesMut};

use super::{
    Item, MOST_ITEMS, OWN_PART,
    agree::Agreement,
    blocks,
    blocks::Block,
    id::Id,
    memory,
    reader::{Reader, START, put_memory},
    scalar::{self, Scalar},
    structured,
};
use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};

/// The number of the codec for plain old data in frames.
const PLAIN: u8 = Id::Plain as u8;

/// Calls a macro with every type that is sent as its memory, alone or in vectors.
macro_rules! scalars {
    ($call:ident) => {
        $call!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64 bool char)
    };
}

/// What a codec number means, for messages.
pub(super) fn describe(id: u8) -> String {
    macro_rules! names {
        ($($scalar:ident)*) => {
            match id {
                $(<$scalar as Scalar>::ID => String::from(stringify!($scalar)),)*
                $(<Vec<$scalar> as Block>::ID => String::from(concat!("Vec<", stringify!($scalar), ">")),)*
                <String as Block>::ID => String::from("String"),
                <Bytes as Block>::ID => String::from("Bytes"),
                <BytesMut as Block>::ID => String::from("BytesMut"),
                PLAIN => String::from("plain old data"),
                structured::ID => String::from("values encoded by serde"),
                other => format!("an unknown kind ({other:#04x})"),
            }
        };
    }
    scalars!(names)
}

/// The batch, taken out of `items`, if that is a `Vec<B>`.
fn same<B: 'static>(items: &mut dyn Any) -> Option<Vec<B>> {
    items.downcast_mut::<Vec<B>>().map(std::mem::take)
}

/// Appends a batch to a message: small things to its head, behind what the caller has put there, bulk data
/// to its parts.
///
/// # Errors
/// If serde cannot encode an item, or the batch has more than 2^26 items.
pub(crate) fn encode<T: Item>(mut items: Vec<T>, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
    check_count::<T>(items.len())?;
    macro_rules! try_each {
        ($($scalar:ident)*) => {
            $(if let Some(items) = same::<$scalar>(&mut items) {
                scalar::encode(items, head, parts);
                return Ok(());
            })*
            $(if let Some(items) = same::<Vec<$scalar>>(&mut items) {
                blocks::encode(items, head, parts);
                return Ok(());
            })*
        };
    }
    scalars!(try_each);
    if let Some(items) = same::<String>(&mut items) {
        blocks::encode(items, head, parts);
    } else if let Some(items) = same::<Bytes>(&mut items) {
        blocks::encode(items, head, parts);
    } else if let Some(items) = same::<BytesMut>(&mut items) {
        blocks::encode(items, head, parts);
    } else {
        structured::encode(items, head)?;
    }
    Ok(())
}

/// Reads the `count` items that [`encode`] wrote; `head` starts where `encode` started.
///
/// # Errors
/// [`ErrorKind::Wire`] for anything else than that. It never panics and never allocates more than a small
/// multiple of the bytes that it got (at most the size of one item for each byte).
pub(crate) fn decode<T: Item>(head: Bytes, parts: Vec<Part>, count: usize) -> Result<Vec<T>> {
    check_count::<T>(count)?;
    macro_rules! try_each {
        ($($scalar:ident)*) => {
            $(if is::<T, $scalar>() {
                let reader = Reader::open(head, parts, (<$scalar as Scalar>::ID, stringify!($scalar)), describe)?;
                return back(scalar::decode::<$scalar>(reader, count)?);
            })*
            $(if is::<T, Vec<$scalar>>() {
                return block::<Vec<$scalar>, T>(head, parts, count);
            })*
        };
    }
    scalars!(try_each);
    if is::<T, String>() {
        block::<String, T>(head, parts, count)
    } else if is::<T, Bytes>() {
        block::<Bytes, T>(head, parts, count)
    } else if is::<T, BytesMut>() {
        block::<BytesMut, T>(head, parts, count)
    } else {
        structured::decode(
            Reader::open(head, parts, (structured::ID, std::any::type_name::<T>()), describe)?,
            count,
        )
    }
}

/// Bytes of what [`encode`] puts before the content of a batch of one item: the start, and behind it the item's length or the
/// fingerprint of its type, unless the codec says both.
pub(crate) fn notes_of_one(head: &[u8]) -> usize {
    let is_scalar = head.get(1).is_some_and(|&codec| codec <= Id::Char as u8);
    START + if is_scalar { 0 } else { size_of::<u32>() }
}

/// Whether items of a type go by serde.
fn goes_by_serde<T: 'static>() -> bool {
    macro_rules! any {
        ($($scalar:ident)*) => {
            $(is::<T, $scalar>() || is::<T, Vec<$scalar>>() ||)*
            is::<T, String>() || is::<T, Bytes>() || is::<T, BytesMut>()
        };
    }
    !(scalars!(any))
}

fn is<A: 'static, B: 'static>() -> bool {
    std::any::TypeId::of::<A>() == std::any::TypeId::of::<B>()
}

fn block<B: Block + 'static, T: Item>(head: Bytes, parts: Vec<Part>, count: usize) -> Result<Vec<T>> {
    let reader = Reader::open(head, parts, (B::ID, std::any::type_name::<T>()), describe)?;
    back(blocks::decode::<B>(reader, count)?)
}

/// The items as what they are; asked only where the two types are the same.
fn back<A: 'static, B: 'static>(mut items: Vec<A>) -> Result<Vec<B>> {
    same(&mut items).ok_or_else(|| Error::new(ErrorKind::Wire, "a codec was asked for another type's items"))
}

fn check_count<T>(count: usize) -> Result<()> {
    if count <= MOST_ITEMS {
        return Ok(());
    }
    let what = std::any::type_name::<T>();
    Err(Error::new(
        ErrorKind::Wire,
        format!("batch of {what}: expected at most {MOST_ITEMS} items, got {count}"),
    ))
}

/// How the items of one edge of a pipeline become bytes.
///
/// The two ends of an edge must use the same one; where they do not, decoding says so.
pub(crate) struct Codec<T> {
    encode: Encode<T>,
    decode: Decode<T>,
    /// Of items that go by serde: what is known of their type.
    agreement: Option<&'static Agreement>,
    is_plain: bool,
}

type Encode<T> = fn(Vec<T>, &mut Vec<u8>, &mut Vec<Part>) -> Result<()>;
type Decode<T> = fn(Bytes, Vec<Part>, usize) -> Result<Vec<T>>;

impl<T: Item> Codec<T> {
    /// The codec that follows from the type: [`encode`] and [`decode`].
    pub(crate) fn of_type() -> Self {
        let agreement = goes_by_serde::<T>().then(Agreement::of::<T>);
        Codec { encode: encode::<T>, decode: decode::<T>, agreement, is_plain: false }
    }

    /// Looks at some of these items, which stay on this rank, whether they could travel: a program that is refused on many
    /// ranks is to be refused on one, too. Returns whether it has looked at any.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if one of them would not come back as what it is; [`ErrorKind::Panic`] if its own code panics.
    #[inline]
    pub(crate) fn check(&self, items: &[T]) -> Result<bool> {
        self.agreement.map_or(Ok(false), |agreement| agreement.check(items))
    }
}

impl<T: bytemuck::Pod + Send> Codec<T> {
    /// The items' memory as it is, the whole batch in one copy or none: for structs and arrays of plain old
    /// data, which must have the same layout on all ranks.
    pub(crate) fn plain() -> Self {
        Codec { encode: encode_plain::<T>, decode: decode_plain::<T>, agreement: None, is_plain: true }
    }
}

impl<T> Codec<T> {
    /// Returns the type of the items, and how they are encoded if the program has chosen that: both ends of an edge must agree.
    pub(crate) fn item(&self) -> String {
        let name = std::any::type_name::<T>();
        if self.is_plain { format!("{name}, sent as plain memory") } else { name.to_string() }
    }

    /// Appends a batch to a message. See [`encode`].
    pub(crate) fn encode(&self, items: Vec<T>, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        (self.encode)(items, head, parts)
    }

    /// Reads a batch of `count` items. See [`decode`].
    pub(crate) fn decode(&self, head: Bytes, parts: Vec<Part>, count: usize) -> Result<Vec<T>> {
        (self.decode)(head, parts, count)
    }
}

impl<T> Clone for Codec<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Codec<T> {}

impl<T> fmt::Debug for Codec<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Codec<{}>", std::any::type_name::<T>())
    }
}

fn encode_plain<T: bytemuck::Pod + Send>(
    items: Vec<T>,
    head: &mut Vec<u8>,
    parts: &mut Vec<Part>,
) -> Result<()> {
    check_count::<T>(items.len())?;
    let fingerprint = structured::fingerprint::<T>().to_ne_bytes();
    put_memory(items, PLAIN, &fingerprint, head, parts);
    Ok(())
}

fn decode_plain<T: bytemuck::Pod>(head: Bytes, parts: Vec<Part>, count: usize) -> Result<Vec<T>> {
    check_count::<T>(count)?;
    let mut reader = Reader::open(head, parts, (PLAIN, std::any::type_name::<T>()), describe)?;
    if reader.u32()? != structured::fingerprint::<T>() {
        return Err(reader.error("the sender means another type of item; do all ranks run the same build?"));
    }
    let bulk = reader.memory(size_of::<T>(), count)?;
    if size_of::<T>() == 0 {
        return Ok(vec![T::zeroed(); count]);
    }
    if bulk.len() < OWN_PART {
        return Ok(memory::copy(bulk.bytes()));
    }
    Ok(bulk.into_values().unwrap_or_else(|bulk| memory::copy(bulk.bytes())))
}

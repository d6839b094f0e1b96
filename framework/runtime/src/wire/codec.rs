//! Selects the codec for a type of items, once per batch.

use std::any::{Any, TypeId, type_name};
use std::fmt;
use std::mem::take;
use std::sync::LazyLock;

use bytes::{Bytes, BytesMut};

use super::{
    Item, MOST_ITEMS, OWN_PART,
    agree::Agreement,
    contiguous,
    contiguous::ContiguousItem,
    id::Id,
    memory,
    reader::{Reader, START, put_memory},
    scalar::{self, Scalar},
    structured,
};
use crate::comm::Part;
use crate::error::{Error, ErrorKind, Result};

const PLAIN: u8 = Id::Plain as u8;

/// Calls a macro with every scalar type (numbers, `bool`, `char`). A batch of scalars, or of vectors of scalars, is sent as its memory.
macro_rules! scalars {
    ($call:ident) => {
        $call!(u8 i8 u16 i16 u32 i32 u64 i64 u128 i128 usize isize f32 f64 bool char)
    };
}

pub(super) fn describe(id: u8) -> String {
    macro_rules! names {
        ($($scalar:ident)*) => {
            match id {
                $(<$scalar as Scalar>::ID => String::from(stringify!($scalar)),)*
                $(<Vec<$scalar> as ContiguousItem>::ID => String::from(concat!("Vec<", stringify!($scalar), ">")),)*
                <String as ContiguousItem>::ID => String::from("String"),
                <Bytes as ContiguousItem>::ID => String::from("Bytes"),
                <BytesMut as ContiguousItem>::ID => String::from("BytesMut"),
                PLAIN => String::from("plain old data"),
                structured::ID => String::from("values encoded by serde"),
                other => format!("an unknown kind ({other:#04x})"),
            }
        };
    }
    scalars!(names)
}

/// Codec of a type that is not serialised with serde. Batches are `Vec`s of the type, passed as `dyn Any`, so that the functions of the codec
/// are compiled once instead of for each type of items.
struct Known {
    of: TypeId,
    id: u8,
    encode: fn(&mut dyn Any, &mut Vec<u8>, &mut Vec<Part>) -> Result<()>,
    decode: fn(Reader, usize, &mut dyn Any) -> Result<()>,
}

impl Known {
    fn scalar<S: Scalar + 'static>() -> Known {
        Known {
            of: TypeId::of::<S>(),
            id: S::ID,
            encode: |items, head, parts| {
                scalar::encode(take(batch::<S>(items)?), head, parts);
                Ok(())
            },
            decode: |reader, count, items| {
                *batch(items)? = scalar::decode::<S>(reader, count)?;
                Ok(())
            },
        }
    }

    fn contiguous<B: ContiguousItem + 'static>() -> Known {
        Known {
            of: TypeId::of::<B>(),
            id: B::ID,
            encode: |items, head, parts| {
                contiguous::encode(take(batch::<B>(items)?), head, parts);
                Ok(())
            },
            decode: |reader, count, items| {
                *batch(items)? = contiguous::decode::<B>(reader, count)?;
                Ok(())
            },
        }
    }

    fn of<T: 'static>() -> Option<&'static Known> {
        static ALL: LazyLock<Vec<Known>> = LazyLock::new(|| {
            macro_rules! all {
                ($($scalar:ident)*) => {
                    vec![
                        $(Known::scalar::<$scalar>(), Known::contiguous::<Vec<$scalar>>(),)*
                        Known::contiguous::<String>(), Known::contiguous::<Bytes>(), Known::contiguous::<BytesMut>(),
                    ]
                };
            }
            scalars!(all)
        });
        let of = TypeId::of::<T>();
        ALL.iter().find(|known| known.of == of)
    }
}

fn batch<B: 'static>(items: &mut dyn Any) -> Result<&mut Vec<B>> {
    items
        .downcast_mut()
        .ok_or_else(|| Error::new(ErrorKind::Wire, "a codec was used for items of another type"))
}

/// Encodes a batch: small values are appended to `head` (the first bytes of a message), large ones to `parts` (memory that is sent without a copy).
///
/// # Errors
/// If serde cannot encode an item, or the batch has more than 2^26 items.
pub(crate) fn encode<T: Item>(mut items: Vec<T>, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
    check_count(items.len(), type_name::<T>())?;
    match Known::of::<T>() {
        Some(known) => (known.encode)(&mut items, head, parts),
        None => structured::encode(items, head),
    }
}

/// Decodes a batch of `count` items; `head` starts with the first byte that [`encode`] wrote.
///
/// # Errors
/// [`ErrorKind::Wire`] if `head` and `parts` are not an encoded batch of `count` items of type `T`. The function never panics, and allocates at most
/// the size of one item for each byte of the message.
pub(crate) fn decode<T: Item>(head: Bytes, parts: Vec<Part>, count: usize) -> Result<Vec<T>> {
    let name = type_name::<T>();
    check_count(count, name)?;
    let known = Known::of::<T>();
    let id = known.map_or(structured::ID, |known| known.id);
    let reader = Reader::open(head, parts, (id, name), describe)?;
    match known {
        Some(known) => {
            let mut items = Vec::<T>::new();
            (known.decode)(reader, count, &mut items)?;
            Ok(items)
        }
        None => structured::decode(reader, count),
    }
}

/// Returns the number of bytes at the start of `head` that are not content, if [`encode`] wrote a batch of one item: the header of the batch and,
/// except for scalars, the item's length or the fingerprint of its type.
pub(crate) fn header_length(head: &[u8]) -> usize {
    let is_scalar = head.get(1).is_some_and(|&codec| codec <= Id::Char as u8);
    START + if is_scalar { 0 } else { size_of::<u32>() }
}

fn check_count(count: usize, what: &str) -> Result<()> {
    if count <= MOST_ITEMS {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Wire,
        format!("batch of {what}: expected at most {MOST_ITEMS} items, got {count}"),
    ))
}

/// Codec for items of one type, as they are sent between two ranks.
///
/// Sender and receiver must use the same codec; otherwise decoding fails with an error.
pub(crate) struct Codec<T> {
    encode: Encode<T>,
    decode: Decode<T>,
    agreement: Option<&'static Agreement>,
    is_plain: bool,
}

type Encode<T> = fn(Vec<T>, &mut Vec<u8>, &mut Vec<Part>) -> Result<()>;
type Decode<T> = fn(Bytes, Vec<Part>, usize) -> Result<Vec<T>>;

impl<T: Item> Codec<T> {
    pub(crate) fn of_type() -> Self {
        let agreement = Known::of::<T>().is_none().then(Agreement::of::<T>);
        Codec { encode: encode::<T>, decode: decode::<T>, agreement, is_plain: false }
    }

    /// Checks that a sample of `items`, which stay on this rank, could be sent to another rank, so that a program that fails on many ranks fails on
    /// one rank too. Returns true if any item was checked.
    ///
    /// # Errors
    /// [`ErrorKind::Wire`] if an item is not equal after encoding and decoding; [`ErrorKind::Panic`] if its `Serialize` or `Deserialize` panics.
    #[inline]
    pub(crate) fn check(&self, items: &[T]) -> Result<bool> {
        self.agreement.map_or(Ok(false), |agreement| agreement.check(items))
    }
}

impl<T: bytemuck::Pod + Send> Codec<T> {
    /// Returns the codec that sends the memory of a whole batch with at most one copy: for structs and arrays of plain old data, whose
    /// layout must be the same on all ranks.
    pub(crate) fn plain() -> Self {
        Codec { encode: encode_plain::<T>, decode: decode_plain::<T>, agreement: None, is_plain: true }
    }
}

impl<T> Codec<T> {
    /// Returns the name of the item type, with the addition "sent as plain memory" for [`plain`](Self::plain). Sender and receiver compare these
    /// names, which must be equal.
    pub(crate) fn item(&self) -> String {
        let name = type_name::<T>();
        if self.is_plain { format!("{name}, sent as plain memory") } else { name.to_string() }
    }

    pub(crate) fn encode(&self, items: Vec<T>, head: &mut Vec<u8>, parts: &mut Vec<Part>) -> Result<()> {
        (self.encode)(items, head, parts)
    }

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
        write!(f, "Codec<{}>", type_name::<T>())
    }
}

fn encode_plain<T: bytemuck::Pod + Send>(
    items: Vec<T>,
    head: &mut Vec<u8>,
    parts: &mut Vec<Part>,
) -> Result<()> {
    check_count(items.len(), type_name::<T>())?;
    let fingerprint = structured::fingerprint::<T>().to_ne_bytes();
    put_memory(items, PLAIN, &fingerprint, head, parts);
    Ok(())
}

fn decode_plain<T: bytemuck::Pod>(head: Bytes, parts: Vec<Part>, count: usize) -> Result<Vec<T>> {
    check_count(count, type_name::<T>())?;
    let mut reader = Reader::open(head, parts, (PLAIN, type_name::<T>()), describe)?;
    if reader.u32()? != structured::fingerprint::<T>() {
        return Err(reader.error("the sender uses another item type; do all ranks run the same build?"));
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

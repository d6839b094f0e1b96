//! Digest of the written form of a value, which does not depend on the order of the elements of sequences and maps, because the order of a
//! `HashMap` may differ each time.

use std::cell::Cell;
use std::fmt;

use serde::ser::{self, Serialize, Serializer};

/// Returns the digest of the written form of a value. Two values that are written differently, except for the order of elements, very probably have
/// different digests.
///
/// # Errors
/// The error of the value's `Serialize`.
pub(super) fn digest<T: Serialize>(value: &T) -> Result<u64, Refused> {
    let before = IS_RUNNING.replace(true);
    let digest = value.serialize(Digest);
    IS_RUNNING.set(before);
    digest
}

thread_local! {
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// Returns true while this thread computes a digest. A type that normally encodes itself as bytes then passes its elements to serde, because in
/// bytes the order of elements cannot be ignored.
pub(super) fn is_running() -> bool {
    IS_RUNNING.get()
}

#[derive(Debug)]
pub(super) struct Refused(String);

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

impl ser::Error for Refused {
    fn custom<T: fmt::Display>(text: T) -> Self {
        Refused(text.to_string())
    }
}

/// Combines two digests into one, in which the order of the two matters.
fn mix(first: u64, second: u64) -> u64 {
    // The multiplier is 2^64 divided by the golden ratio, so that the upper half of the product depends on all bits of both digests.
    let product = (first.rotate_left(23) ^ second).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    product ^ product >> 32
}

fn all<const N: usize>(numbers: [u64; N]) -> Result<u64, Refused> {
    Ok(numbers.into_iter().fold(N as u64, mix))
}

struct Digest;

macro_rules! numbers {
    ($($method:ident($value:ty))*) => {$(
        fn $method(self, value: $value) -> Result<u64, Refused> {
            Ok(value as u64)
        }
    )*};
}

impl Serializer for Digest {
    type Ok = u64;
    type Error = Refused;
    type SerializeSeq = Parts;
    type SerializeTuple = Parts;
    type SerializeTupleStruct = Parts;
    type SerializeTupleVariant = Parts;
    type SerializeMap = Parts;
    type SerializeStruct = Parts;
    type SerializeStructVariant = Parts;

    numbers!(
        serialize_bool(bool) serialize_char(char)
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64)
    );

    fn serialize_i128(self, value: i128) -> Result<u64, Refused> {
        self.serialize_u128(value as u128)
    }

    fn serialize_u128(self, value: u128) -> Result<u64, Refused> {
        all([value as u64, (value >> 64) as u64])
    }

    fn serialize_f32(self, value: f32) -> Result<u64, Refused> {
        Ok(value.to_bits().into())
    }

    fn serialize_f64(self, value: f64) -> Result<u64, Refused> {
        Ok(value.to_bits())
    }

    fn serialize_str(self, value: &str) -> Result<u64, Refused> {
        self.serialize_bytes(value.as_bytes())
    }

    fn serialize_bytes(self, value: &[u8]) -> Result<u64, Refused> {
        all([value.len() as u64, crc32fast::hash(value).into()])
    }

    fn serialize_none(self) -> Result<u64, Refused> {
        Ok(0)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<u64, Refused> {
        all([1, value.serialize(self)?])
    }

    fn serialize_unit(self) -> Result<u64, Refused> {
        Ok(0)
    }

    fn serialize_unit_struct(self, _: &'static str) -> Result<u64, Refused> {
        Ok(0)
    }

    fn serialize_unit_variant(self, _: &'static str, number: u32, _: &'static str) -> Result<u64, Refused> {
        Ok(number.into())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        value: &T,
    ) -> Result<u64, Refused> {
        value.serialize(self)
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        number: u32,
        _: &'static str,
        value: &T,
    ) -> Result<u64, Refused> {
        all([number.into(), value.serialize(self)?])
    }

    fn serialize_seq(self, _: Option<usize>) -> Result<Parts, Refused> {
        Ok(Parts::in_any_order())
    }

    fn serialize_tuple(self, _: usize) -> Result<Parts, Refused> {
        Ok(Parts::in_order(0))
    }

    fn serialize_tuple_struct(self, _: &'static str, _: usize) -> Result<Parts, Refused> {
        Ok(Parts::in_order(0))
    }

    fn serialize_tuple_variant(
        self,
        _: &'static str,
        number: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts, Refused> {
        Ok(Parts::in_order(number))
    }

    fn serialize_map(self, _: Option<usize>) -> Result<Parts, Refused> {
        Ok(Parts::in_any_order())
    }

    fn serialize_struct(self, _: &'static str, _: usize) -> Result<Parts, Refused> {
        Ok(Parts::in_order(0))
    }

    fn serialize_struct_variant(
        self,
        _: &'static str,
        number: u32,
        _: &'static str,
        _: usize,
    ) -> Result<Parts, Refused> {
        Ok(Parts::in_order(number))
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

/// Digest of a struct, sequence or map, of which some elements have been written.
struct Parts {
    ordered: bool,
    count: u64,
    sum: u64,
    /// Digest of the last written key of a map, whose value follows.
    key: u64,
}

impl Parts {
    fn in_order(variant: u32) -> Self {
        Parts { ordered: true, count: 0, sum: variant.into(), key: 0 }
    }

    fn in_any_order() -> Self {
        Parts { ordered: false, count: 0, sum: 0, key: 0 }
    }

    fn add<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        let number = mix(self.key, value.serialize(Digest)?);
        self.count += 1;
        self.sum = if self.ordered { mix(self.sum, number) } else { self.sum.wrapping_add(number) };
        Ok(())
    }
}

macro_rules! compounds {
    ($($compound:ident: $method:ident($($field:ty)?);)*) => {$(
        impl ser::$compound for Parts {
            type Ok = u64;
            type Error = Refused;

            fn $method<T: Serialize + ?Sized>(&mut self, $(_: $field,)? value: &T) -> Result<(), Refused> {
                self.add(value)
            }

            fn end(self) -> Result<u64, Refused> {
                all([self.count, self.sum])
            }
        }
    )*};
}

compounds!(
    SerializeSeq: serialize_element();
    SerializeTuple: serialize_element();
    SerializeTupleStruct: serialize_field();
    SerializeTupleVariant: serialize_field();
    SerializeStruct: serialize_field(&'static str);
    SerializeStructVariant: serialize_field(&'static str);
);

impl ser::SerializeMap for Parts {
    type Ok = u64;
    type Error = Refused;

    fn serialize_key<T: Serialize + ?Sized>(&mut self, key: &T) -> Result<(), Refused> {
        self.key = key.serialize(Digest)?;
        Ok(())
    }

    fn serialize_value<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), Refused> {
        self.add(value)
    }

    fn end(self) -> Result<u64, Refused> {
        all([self.count, self.sum])
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, HashMap, HashSet};

    use serde::{Deserialize, Serialize};

    use super::*;

    #[derive(Serialize, Deserialize)]
    enum Shape {
        Dot,
        Line(u32, u32),
        Disc { x: i8, r: Option<f32> },
    }

    fn of<T: Serialize>(value: T) -> u64 {
        digest(&value).unwrap()
    }

    #[test]
    fn different_values_have_different_digests() {
        let numbers = [
            of(Shape::Dot),
            of(Shape::Line(1, 2)),
            of(Shape::Line(2, 1)),
            of(Shape::Disc { x: -1, r: None }),
            of(Shape::Disc { x: 1, r: None }),
            of(Shape::Disc { x: 1, r: Some(0.0) }),
            of(Shape::Disc { x: 1, r: Some(-0.0) }),
            of((1, "a")),
            of((1, "b")),
            of(vec![(1, "a"), (2, "b")]),
            of(vec![(1, "b"), (2, "a")]),
            of(vec![(), ()]),
            of(vec![(), (), ()]),
            of(1_u128 << 64),
            of(BTreeMap::from([(1, 2), (3, 4)])),
            of(BTreeMap::from([(1, 4), (3, 2)])),
        ];
        assert_eq!(HashSet::from(numbers).len(), numbers.len(), "{numbers:x?}");
    }

    #[test]
    fn digest_ignores_element_order() {
        let map = |keys: &mut dyn Iterator<Item = u32>| keys.map(|n| (n, n * n)).collect::<HashMap<_, _>>();
        assert_eq!(of(map(&mut (0..50))), of(map(&mut (0..50).rev())));
        assert_eq!(of([1, 2, 3].map(Some).to_vec()), of([3, 1, 2].map(Some).to_vec()));
    }
}

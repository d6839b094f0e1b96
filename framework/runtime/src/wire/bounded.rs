//! A serde deserializer that wraps another one and protects against hostile input.
//!
//! bincode trusts its input in three respects: it allocates the length of a string or buffer before it checks that the bytes are present; a
//! sequence of values without bytes can run for 2^64 rounds; and values can be nested as deeply as the input is long, until the stack
//! overflows. The limit of bincode is a constant of the type, so it cannot follow the size of a message. This module ensures that:
//!
//! - strings and buffers are borrowed from the input (which checks that their bytes are present), then copied;
//! - all sequences, tuples and maps of an input together announce a limited number of elements: enough for every input in which elements
//!   take bytes, and [`EMPTY_ELEMENTS`] in addition for elements without bytes;
//! - values are nested at most [`MOST_NESTED`] levels deep.

use std::{cell::Cell, fmt, marker::PhantomData};

use serde::de::{
    Deserialize, DeserializeSeed, Deserializer, EnumAccess, Error, MapAccess, SeqAccess, VariantAccess,
    Visitor,
};

/// Maximum number of elements that take no bytes (such as `()`) in an input.
const EMPTY_ELEMENTS: usize = 1 << 20;

/// Maximum nesting depth of decoded values, equal to that of serde_json.
const MOST_NESTED: u8 = 128;

/// Returns the maximum number of elements that the sequences, tuples and maps of an input of `size` bytes may announce, all together.
///
/// One byte can count as an element once per nesting level, as in a vector of tuples of tuples of `u8`; hence the product with the maximum nesting
/// depth.
pub(super) fn budget(size: usize) -> Cell<usize> {
    Cell::new(size.saturating_mul(usize::from(MOST_NESTED)).saturating_add(EMPTY_ELEMENTS))
}

/// Limits for decoding the rest of an input: number of elements that its sequences may still announce, and number of nesting levels that
/// may still be entered.
#[derive(Clone, Copy)]
pub(super) struct Bounds<'b> {
    elements: &'b Cell<usize>,
    levels: u8,
}

impl<'b> Bounds<'b> {
    pub(super) fn new(elements: &'b Cell<usize>) -> Self {
        Bounds { elements, levels: MOST_NESTED }
    }

    fn deeper<E: Error>(self) -> Result<Self, E> {
        match self.levels.checked_sub(1) {
            Some(levels) => Ok(Bounds { levels, ..self }),
            None => Err(E::custom(format_args!("values are nested more than {MOST_NESTED} levels deep"))),
        }
    }

    fn announce<E: Error>(self, count: Option<usize>) -> Result<(), E> {
        let count = count.unwrap_or_default();
        let left = self.elements.get().checked_sub(count).ok_or_else(|| {
            E::custom(format_args!("{count} elements are announced, too many for the bytes of the message"))
        })?;
        self.elements.set(left);
        Ok(())
    }
}

/// Wrapper of a serde object (deserializer, visitor, seed or access) that checks the limits for decoding ([`Bounds`]) for the values that are read
/// through it.
pub(super) struct Bounded<'b, T> {
    pub(super) inner: T,
    pub(super) bounds: Bounds<'b>,
}

fn bound<T>(inner: T, bounds: Bounds<'_>) -> Bounded<'_, T> {
    Bounded { inner, bounds }
}

macro_rules! leaves {
    ($($method:ident)*) => {$(
        #[inline]
        fn $method<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
            self.inner.$method(visitor)
        }
    )*};
}

impl<'de, D: Deserializer<'de>> Deserializer<'de> for Bounded<'_, D> {
    type Error = D::Error;

    leaves!(
        deserialize_any deserialize_bool deserialize_i8 deserialize_i16 deserialize_i32 deserialize_i64
        deserialize_i128 deserialize_u8 deserialize_u16 deserialize_u32 deserialize_u64 deserialize_u128
        deserialize_f32 deserialize_f64 deserialize_char deserialize_str deserialize_bytes deserialize_unit
        deserialize_identifier deserialize_ignored_any
    );

    fn deserialize_string<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_str(Owned(visitor))
    }

    fn deserialize_byte_buf<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_bytes(Owned(visitor))
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_unit_struct(name, visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_option(bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_newtype_struct(name, bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_seq(bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple(len, bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        len: usize,
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_tuple_struct(name, len, bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, D::Error> {
        self.inner.deserialize_map(bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_struct(name, fields, bound(visitor, self.bounds.deeper()?))
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, D::Error> {
        self.inner.deserialize_enum(name, variants, bound(visitor, self.bounds.deeper()?))
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

impl<'de, V: Visitor<'de>> Visitor<'de> for Bounded<'_, V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.expecting(f)
    }

    fn visit_unit<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_unit()
    }

    fn visit_none<E: Error>(self) -> Result<V::Value, E> {
        self.inner.visit_none()
    }

    fn visit_some<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_some(bound(value, self.bounds))
    }

    fn visit_newtype_struct<D: Deserializer<'de>>(self, value: D) -> Result<V::Value, D::Error> {
        self.inner.visit_newtype_struct(bound(value, self.bounds))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<V::Value, A::Error> {
        self.bounds.announce(seq.size_hint())?;
        self.inner.visit_seq(bound(seq, self.bounds))
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<V::Value, A::Error> {
        self.bounds.announce(map.size_hint())?;
        self.inner.visit_map(bound(map, self.bounds))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, data: A) -> Result<V::Value, A::Error> {
        self.inner.visit_enum(bound(data, self.bounds))
    }
}

impl<'de, S: DeserializeSeed<'de>> DeserializeSeed<'de> for Bounded<'_, S> {
    type Value = S::Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<S::Value, D::Error> {
        self.inner.deserialize(bound(deserializer, self.bounds))
    }
}

impl<'de, A: SeqAccess<'de>> SeqAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_element_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_element_seed(bound(seed, self.bounds))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, A: MapAccess<'de>> MapAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn next_key_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<Option<S::Value>, A::Error> {
        self.inner.next_key_seed(bound(seed, self.bounds))
    }

    fn next_value_seed<S: DeserializeSeed<'de>>(&mut self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.next_value_seed(bound(seed, self.bounds))
    }

    fn size_hint(&self) -> Option<usize> {
        self.inner.size_hint()
    }
}

impl<'de, 'b, A: EnumAccess<'de>> EnumAccess<'de> for Bounded<'b, A> {
    type Error = A::Error;
    type Variant = Bounded<'b, A::Variant>;

    fn variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<(S::Value, Self::Variant), A::Error> {
        let (value, variant) = self.inner.variant_seed(bound(seed, self.bounds))?;
        Ok((value, bound(variant, self.bounds)))
    }
}

impl<'de, A: VariantAccess<'de>> VariantAccess<'de> for Bounded<'_, A> {
    type Error = A::Error;

    fn unit_variant(self) -> Result<(), A::Error> {
        self.inner.unit_variant()
    }

    fn newtype_variant_seed<S: DeserializeSeed<'de>>(self, seed: S) -> Result<S::Value, A::Error> {
        self.inner.newtype_variant_seed(bound(seed, self.bounds))
    }

    fn tuple_variant<V: Visitor<'de>>(self, len: usize, visitor: V) -> Result<V::Value, A::Error> {
        self.inner.tuple_variant(len, bound(visitor, self.bounds))
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, A::Error> {
        self.inner.struct_variant(fields, bound(visitor, self.bounds))
    }
}

/// A visitor that passes borrowed text and bytes on to another visitor as owned values.
struct Owned<V>(V);

impl<'de, V: Visitor<'de>> Visitor<'de> for Owned<V> {
    type Value = V::Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.expecting(f)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<V::Value, E> {
        self.0.visit_string(text.to_string())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<V::Value, E> {
        self.0.visit_byte_buf(bytes.to_vec())
    }
}

/// serde seed that reads one value and checks the limits for decoding ([`Bounds`]).
pub(super) struct One<'b, T>(pub(super) Bounds<'b>, pub(super) PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for One<'_, T> {
    type Value = T;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<T, D::Error> {
        T::deserialize(bound(deserializer, self.0))
    }
}

/// serde seed that reads `count` consecutive values and checks the limits for decoding ([`Bounds`]).
pub(super) struct Many<'b, T>(pub(super) Bounds<'b>, pub(super) usize, pub(super) PhantomData<T>);

impl<'de, T: Deserialize<'de>> DeserializeSeed<'de> for Many<'_, T> {
    type Value = Vec<T>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Vec<T>, D::Error> {
        // bincode encodes `count` values without a length prefix in the same way as a tuple, so they are read as a tuple.
        deserializer.deserialize_tuple(self.1, self)
    }
}

impl<'de, T: Deserialize<'de>> Visitor<'de> for Many<'_, T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} values", self.1)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Vec<T>, A::Error> {
        let Many(bounds, count, _) = self;
        // The vector grows with the values that are read. Its first allocation is at most 64 KiB, because the announced number of values may be
        // wrong.
        let likely = (64 * 1024 / size_of::<T>().max(1)).clamp(1, count.max(1));
        let mut values = Vec::with_capacity(likely);
        while let Some(value) = seq.next_element_seed(One(bounds, PhantomData))? {
            values.push(value);
        }
        Ok(values)
    }
}

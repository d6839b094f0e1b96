//! A serde serializer that wraps another one and records the structs, enum variants and omitted fields that are written.

use std::fmt;

use serde::ser::{self, Error, Serialize, Serializer};

use super::shapes::{Kind, Watch};

/// Advice at the end of error messages about types whose `Serialize` and `Deserialize` do not agree.
pub(super) const REMEDY: &str = "Items travel without the names of their fields, and what Serialize writes \
    must be what Deserialize reads: derive both; put variants with serde's `skip` behind all others; send a \
    type with `flatten`, `untagged`, `tag` or `skip_serializing_if` as `armature::Named`";

/// Wrapper of a value that records structs, enum variants and omitted fields while the value is serialized.
pub(super) struct Watched<'w, T: ?Sized> {
    pub(super) value: &'w T,
    pub(super) watch: &'w Watch,
}

impl<T: Serialize + ?Sized> Serialize for Watched<'_, T> {
    #[inline]
    fn serialize<S: Serializer>(&self, inner: S) -> Result<S::Ok, S::Error> {
        self.value.serialize(Watching { inner, watch: self.watch, name: "" })
    }
}

/// A serializer or compound serializer of serde whose calls are recorded. `name` is the name of the struct or enum that is being written.
struct Watching<'w, S> {
    inner: S,
    watch: &'w Watch,
    name: &'static str,
}

impl<'w, S> Watching<'w, S> {
    /// Calls `next`, which turns the wrapped serializer into another one, and wraps the result so that its calls are recorded too.
    #[inline]
    fn continue_with<C, E>(
        self,
        name: &'static str,
        next: impl FnOnce(S) -> Result<C, E>,
    ) -> Result<Watching<'w, C>, E> {
        Ok(Watching { inner: next(self.inner)?, watch: self.watch, name })
    }

    #[inline]
    fn value<'v, T: ?Sized>(&self, value: &'v T) -> Watched<'v, T>
    where
        'w: 'v,
    {
        Watched { value, watch: self.watch }
    }
}

macro_rules! leaves {
    ($($method:ident($value:ty))*) => {$(
        #[inline]
        fn $method(self, value: $value) -> Result<S::Ok, S::Error> {
            self.inner.$method(value)
        }
    )*};
}

impl<'w, S: Serializer> Serializer for Watching<'w, S> {
    type Ok = S::Ok;
    type Error = S::Error;
    type SerializeSeq = Watching<'w, S::SerializeSeq>;
    type SerializeTuple = Watching<'w, S::SerializeTuple>;
    type SerializeTupleStruct = Watching<'w, S::SerializeTupleStruct>;
    type SerializeTupleVariant = Watching<'w, S::SerializeTupleVariant>;
    type SerializeMap = Watching<'w, S::SerializeMap>;
    type SerializeStruct = Watching<'w, S::SerializeStruct>;
    type SerializeStructVariant = Watching<'w, S::SerializeStructVariant>;

    leaves!(
        serialize_bool(bool) serialize_char(char) serialize_str(&str) serialize_bytes(&[u8])
        serialize_i8(i8) serialize_i16(i16) serialize_i32(i32) serialize_i64(i64) serialize_i128(i128)
        serialize_u8(u8) serialize_u16(u16) serialize_u32(u32) serialize_u64(u64) serialize_u128(u128)
        serialize_f32(f32) serialize_f64(f64)
    );

    #[inline]
    fn serialize_none(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_none()
    }

    #[inline]
    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        let value = self.value(value);
        self.inner.serialize_some(&value)
    }

    #[inline]
    fn serialize_unit(self) -> Result<S::Ok, S::Error> {
        self.inner.serialize_unit()
    }

    #[inline]
    fn serialize_unit_struct(self, name: &'static str) -> Result<S::Ok, S::Error> {
        self.watch.see(name, "", Kind::Struct(0));
        self.inner.serialize_unit_struct(name)
    }

    #[inline]
    fn serialize_unit_variant(
        self,
        name: &'static str,
        number: u32,
        part: &'static str,
    ) -> Result<S::Ok, S::Error> {
        self.watch.see(name, part, Kind::Variant(number));
        self.inner.serialize_unit_variant(name, number, part)
    }

    #[inline]
    fn serialize_newtype_struct<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.watch.see(name, "", Kind::Struct(1));
        let value = self.value(value);
        self.inner.serialize_newtype_struct(name, &value)
    }

    #[inline]
    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        name: &'static str,
        number: u32,
        part: &'static str,
        value: &T,
    ) -> Result<S::Ok, S::Error> {
        self.watch.see(name, part, Kind::Variant(number));
        let value = self.value(value);
        self.inner.serialize_newtype_variant(name, number, part, &value)
    }

    #[inline]
    fn serialize_seq(self, len: Option<usize>) -> Result<Self::SerializeSeq, S::Error> {
        self.continue_with("", |inner| inner.serialize_seq(len))
    }

    #[inline]
    fn serialize_tuple(self, len: usize) -> Result<Self::SerializeTuple, S::Error> {
        self.continue_with("", |inner| inner.serialize_tuple(len))
    }

    #[inline]
    fn serialize_tuple_struct(
        self,
        name: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleStruct, S::Error> {
        self.watch.see(name, "", Kind::Struct(len));
        self.continue_with(name, |inner| inner.serialize_tuple_struct(name, len))
    }

    #[inline]
    fn serialize_tuple_variant(
        self,
        name: &'static str,
        number: u32,
        part: &'static str,
        len: usize,
    ) -> Result<Self::SerializeTupleVariant, S::Error> {
        self.watch.see(name, part, Kind::Variant(number));
        self.continue_with(name, |inner| inner.serialize_tuple_variant(name, number, part, len))
    }

    #[inline]
    fn serialize_map(self, len: Option<usize>) -> Result<Self::SerializeMap, S::Error> {
        if len.is_none() {
            return Err(S::Error::custom(format_args!(
                "it writes a map without its length, as a struct with `flatten` does. {REMEDY}"
            )));
        }
        self.continue_with("", |inner| inner.serialize_map(len))
    }

    #[inline]
    fn serialize_struct(self, name: &'static str, len: usize) -> Result<Self::SerializeStruct, S::Error> {
        self.watch.see(name, "", Kind::Struct(len));
        self.continue_with(name, |inner| inner.serialize_struct(name, len))
    }

    #[inline]
    fn serialize_struct_variant(
        self,
        name: &'static str,
        number: u32,
        part: &'static str,
        len: usize,
    ) -> Result<Self::SerializeStructVariant, S::Error> {
        self.watch.see(name, part, Kind::Variant(number));
        self.continue_with(name, |inner| inner.serialize_struct_variant(name, number, part, len))
    }

    fn collect_str<T: fmt::Display + ?Sized>(self, value: &T) -> Result<S::Ok, S::Error> {
        self.inner.collect_str(value)
    }

    fn is_human_readable(&self) -> bool {
        self.inner.is_human_readable()
    }
}

macro_rules! compounds {
    ($($compound:ident: $($method:ident)*;)*) => {$(
        impl<C: ser::$compound> ser::$compound for Watching<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            $(
                #[inline]
                fn $method<T: Serialize + ?Sized>(&mut self, value: &T) -> Result<(), C::Error> {
                    let value = self.value(value);
                    self.inner.$method(&value)
                }
            )*

            #[inline]
            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

compounds!(
    SerializeSeq: serialize_element;
    SerializeTuple: serialize_element;
    SerializeTupleStruct: serialize_field;
    SerializeTupleVariant: serialize_field;
    SerializeMap: serialize_key serialize_value;
);

macro_rules! structs {
    ($($compound:ident)*) => {$(
        impl<C: ser::$compound> ser::$compound for Watching<'_, C> {
            type Ok = C::Ok;
            type Error = C::Error;

            #[inline]
            fn serialize_field<T: Serialize + ?Sized>(
                &mut self,
                field: &'static str,
                value: &T,
            ) -> Result<(), C::Error> {
                let value = self.value(value);
                self.inner.serialize_field(field, &value)
            }

            #[inline]
            fn skip_field(&mut self, field: &'static str) -> Result<(), C::Error> {
                self.watch.see(self.name, field, Kind::LeftOut);
                self.inner.skip_field(field)
            }

            #[inline]
            fn end(self) -> Result<C::Ok, C::Error> {
                self.inner.end()
            }
        }
    )*};
}

structs!(SerializeStruct SerializeStructVariant);

//! Values that are sent with the names of their fields.

use std::fmt;
use std::ops::{Deref, DerefMut};

use serde::de::{DeserializeOwned, Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::digest;

/// A value that is sent as MessagePack, with the names of its fields and variants.
///
/// Other items are sent by bincode, without names. A type with serde's `flatten`, `untagged`, `tag` or `skip_serializing_if` cannot be read
/// without names, and [is refused](crate::Item#unsupported-types). As a `Named` it can be sent, by all skeletons and operations of a
/// session. The encoding takes two to four times as many bytes, and more time.
///
/// ```
/// use armature::{Config, Named, pipeline::Pipeline};
/// use serde::{Deserialize, Serialize};
///
/// #[derive(Serialize, Deserialize)]
/// #[serde(tag = "shape")]
/// enum Shape {
///     Disc { radius: f64 },
///     Square { side: f64 },
/// }
///
/// let areas = armature::run(&Config::new().ranks(2), |session| {
///     let shapes = || [Shape::Disc { radius: 1.0 }, Shape::Square { side: 3.0 }].map(Named);
///     let areas = Pipeline::source("shapes", shapes).map("area", |shape| match *shape {
///         Shape::Disc { radius } => std::f64::consts::PI * radius * radius,
///         Shape::Square { side } => side * side,
///     });
///     Ok(areas.collect(session)?.on_root())
/// })?;
/// assert_eq!(areas.unwrap(), [std::f64::consts::PI, 9.0]);
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Named<T>(pub T);

impl<T> Deref for Named<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Named<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for Named<T> {
    fn from(value: T) -> Self {
        Named(value)
    }
}

impl<T: Serialize> Serialize for Named<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        if digest::is_running() {
            return self.0.serialize(serializer);
        }
        let bytes = rmp_serde::to_vec_named(&self.0).map_err(serde::ser::Error::custom)?;
        serializer.serialize_bytes(&bytes)
    }
}

impl<'de, T: DeserializeOwned> Deserialize<'de> for Named<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(MessagePack(std::marker::PhantomData)).map(Named)
    }
}

/// Maximum nesting depth of a value, as for items that are sent without names. A deeper value could overflow the stack of a thread.
const DEEPEST: usize = 128;

struct MessagePack<T>(std::marker::PhantomData<T>);

impl<T: DeserializeOwned> Visitor<'_> for MessagePack<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value as MessagePack")
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
        let mut reader = rmp_serde::Deserializer::new(bytes);
        reader.set_max_depth(DEEPEST);
        let value = T::deserialize(&mut reader).map_err(E::custom)?;
        match reader.get_ref().len() {
            0 => Ok(value),
            more => Err(E::custom(format_args!("{more} bytes too many"))),
        }
    }
}

//! Plain old data inside items: [`Plain`] for one value, [`raw`] for a field that is a vector of values.

use std::{
    fmt,
    marker::PhantomData,
    ops::{Deref, DerefMut},
};

use bytemuck::Pod;
use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

use super::memory;

/// A value of plain old data that is sent as its bytes, with one copy.
///
/// Use it for arrays (of any length, whereas serde supports at most 32 elements) and for structs that implement [`bytemuck::Pod`]. Byte
/// order and layout are those of the machine, so all ranks must run the same build.
///
/// ```
/// use armature::Plain;
///
/// let descriptor = Plain([0.5_f32; 96]);
/// assert_eq!(descriptor.iter().sum::<f32>(), 48.0); // it derefs to what it holds
/// ```
///
/// `Plain<T>` is plain old data if `T` is, so a pipeline can be configured to send whole batches as their memory
/// ([`plain`](crate::pipeline::Pipeline::plain)). Batches of 32 KiB or more are then sent without a copy:
///
/// ```
/// use armature::{Config, Plain, pipeline::Pipeline};
///
/// let means = armature::run(&Config::new(), |session| {
///     let means = Pipeline::source("signals", || (0..100).map(|n| Plain([f64::from(n); 128])))
///         .plain()
///         .map("mean", |signal| signal.iter().sum::<f64>() / 128.0);
///     Ok(means.collect(session)?.on_root())
/// })?;
/// assert_eq!(means.unwrap()[99], 99.0);
/// # Ok::<(), armature::Error>(())
/// ```
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, bytemuck::Pod, bytemuck::Zeroable,
)]
#[repr(transparent)]
pub struct Plain<T>(pub T);

impl<T> Deref for Plain<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> DerefMut for Plain<T> {
    fn deref_mut(&mut self) -> &mut T {
        &mut self.0
    }
}

impl<T> From<T> for Plain<T> {
    fn from(value: T) -> Self {
        Plain(value)
    }
}

impl<T: Pod> Serialize for Plain<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(bytemuck::bytes_of(&self.0))
    }
}

impl<'de, T: Pod> Deserialize<'de> for Plain<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_bytes(One(PhantomData)).map(Plain)
    }
}

struct One<T>(PhantomData<T>);

impl<T: Pod> Visitor<'_> for One<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes", size_of::<T>())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<T, E> {
        bytemuck::try_pod_read_unaligned(bytes).map_err(|_| E::invalid_length(bytes.len(), &self))
    }
}

/// Serialization of fields that are vectors of plain old data, with one copy instead of one call per element.
///
/// ```
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Image {
///     width: u32,
///     #[serde(with = "armature::raw")]
///     pixels: Vec<f32>,
/// }
/// ```
pub mod raw {
    use super::{Deserializer, Error, Many, PhantomData, Pod, Serializer};

    /// Serializes the memory of the vector.
    ///
    /// # Errors
    /// The errors of the serializer, and an error for a type whose values have no size.
    pub fn serialize<T: Pod, S: Serializer>(values: &[T], serializer: S) -> Result<S::Ok, S::Error> {
        if size_of::<T>() == 0 {
            return Err(serde::ser::Error::custom("values of no size cannot be sent as raw bytes"));
        }
        serializer.serialize_bytes(bytemuck::cast_slice(values))
    }

    /// Deserializes a vector that [`serialize`] has written.
    ///
    /// # Errors
    /// If the bytes are not a whole number of values, if the type has no size, and the errors of the deserializer.
    pub fn deserialize<'de, T: Pod, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<T>, D::Error> {
        if size_of::<T>() == 0 {
            return Err(D::Error::custom("values of no size cannot be sent as raw bytes"));
        }
        deserializer.deserialize_bytes(Many(PhantomData))
    }
}

struct Many<T>(PhantomData<T>);

impl<T: Pod> Visitor<'_> for Many<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a multiple of {} bytes", size_of::<T>())
    }

    fn visit_bytes<E: Error>(self, bytes: &[u8]) -> Result<Vec<T>, E> {
        if !bytes.len().is_multiple_of(size_of::<T>()) {
            return Err(E::invalid_length(bytes.len(), &self));
        }
        Ok(memory::copy(bytes))
    }
}

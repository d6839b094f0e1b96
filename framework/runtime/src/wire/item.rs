//! What may travel through a pipeline.

use serde::{Serialize, de::DeserializeOwned};

/// A type whose values can be handed from rank to rank.
///
/// Implemented for everything that serde can take apart and put together again and that may change threads;
/// there is nothing to implement by hand.
///
/// ```
/// use armature::Item;
///
/// #[derive(serde::Serialize, serde::Deserialize)]
/// struct Image { width: u32, name: String, pixels: Vec<u8> }
///
/// fn travels<T: Item>() {}
/// travels::<Image>();
/// travels::<Vec<f32>>();
/// ```
///
/// Two things hold for all items:
///
/// - The format is not self-describing, so serde's `untagged`, `flatten` and `skip_serializing_if` do not work:
///   they fail with an error on the receiving rank.
/// - A value nested more than 128 levels deep is refused by the receiver.
pub trait Item: Serialize + DeserializeOwned + Send + 'static {}

impl<T: Serialize + DeserializeOwned + Send + 'static> Item for T {}

//! Types whose values can be sent between ranks.

use serde::{Serialize, de::DeserializeOwned};

/// A type whose values can be sent from rank to rank.
///
/// The trait is implemented for every type that serde can serialize and deserialize and that can be sent to another thread. There is
/// nothing to implement by hand.
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
/// # Unsupported types
/// Items are sent without the names of their fields, and `Deserialize` must read a value that is equal to the one that `Serialize` has
/// written. The following cases are detected on any number of ranks, and reported as an error with the name of the type:
///
/// - serde's `flatten`, `untagged`, `tag` and `skip_serializing_if`, unless the value is sent as [`Named`](crate::Named);
/// - serde's `skip_serializing` without `default`;
/// - an enum in which a variant with `skip` precedes other variants: serde counts it when it writes, and does not count it when it reads,
///   so that one variant would become another. After all other variants it is permitted;
/// - a `Deserialize` written by hand that reads less than was written, or something else;
/// - a value nested more than 128 levels deep.
///
/// For this check some items are read from their own bytes and written again: of each type, and in each process, the first 64 items and
/// then those whose number is a power of two, whether they are sent to another rank or not. In addition, every encoded item with a variant,
/// a struct or an omitted field that did not occur in earlier items is checked. Therefore no item of a derived type is received, or kept in
/// a journal or a checkpoint, as a different value. Implementations written by hand (including `with` and `serialize_with`) that fail only
/// for a few values may remain undetected. Elements of sequences and maps may be read in another order, as those of a `HashMap` are.
///
/// A field with `skip` is not sent: it has its default value after the item has been received, and its original value if the item stays on the rank.
/// Numbers, `bool` and `char`, vectors of them, `String`, `Bytes` and `BytesMut` are not encoded by serde and are not checked.
#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot travel from rank to rank",
    label = "a task, a result or an item must be an `armature::Item`",
    note = "derive both traits of serde for it: `#[derive(serde::Serialize, serde::Deserialize)]`; they are in the crate `serde` with its feature `derive`",
    note = "it must own what it holds, and may change threads: `String` instead of `&str`, `Arc` (with serde's feature `rc`) instead of `Rc`",
    note = "arrays of more than 32 numbers, and plain structs of `bytemuck`, travel as `armature::Plain`"
)]
pub trait Item: Serialize + DeserializeOwned + Send + 'static {}

#[diagnostic::do_not_recommend]
impl<T: Serialize + DeserializeOwned + Send + 'static> Item for T {}

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
/// # What is refused
/// Items travel without the names of their fields, and what a type's `Serialize` writes its `Deserialize` must read as the
/// same. A type for which that does not hold is an error that names it, on any number of ranks:
///
/// - serde's `flatten`, `untagged`, `tag`, `skip_serializing` and `skip_serializing_if`;
/// - an enum in which a variant with `skip` stands in front of others: serde numbers them with it when it writes, and without
///   it when it reads, so that one would become another. Behind all others it does no harm;
/// - a `Deserialize` written by hand that reads less than was written, or something else;
/// - a value nested more than 128 levels deep.
///
/// For this some items are read from their own bytes and written again: of each type, and in each process, the first 64
/// and then those whose number is a power of two, whether they go to another rank or not; and of those that are encoded
/// every one that has a variant, a struct or a left-out field that was not among the items before. So no item of a derived
/// type arrives, or is kept in a journal or a checkpoint, as another. What was written by hand (`with` and
/// `serialize_with` too) and goes wrong for a few values only may be missed. Elements of sequences and maps may come in another order, as those of a `HashMap` do.
///
/// A field with `skip` does not travel: it has its default where the item arrives, and its value where the item
/// stays. Numbers, `bool`, `char`, vectors of these, `String`, `Bytes` and `BytesMut` do not go by serde and are not looked at.
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

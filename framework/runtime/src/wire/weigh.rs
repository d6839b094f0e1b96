//! Estimates of the memory that items take: their size in memory, and for the data that they own on the heap, its encoded size. Memory limits use
//! these estimates for items that are not encoded.

use crate::user_code;
use std::any::Any;
use std::io::{self, Write};

use bytes::{Bytes, BytesMut};

use super::{Item, contiguous::ContiguousItem, value};

struct Counter(usize);

impl Write for Counter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len();
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the estimated memory of `items` in bytes. For the data that an item owns on the heap, its encoded size is used, which is a little too
/// small for many small allocations. Heap data of items that serde cannot encode is not counted.
pub(crate) fn weigh<T: Item>(items: &[T]) -> usize {
    let bare = size_of_val(items);
    if !std::mem::needs_drop::<T>() {
        return bare;
    }
    bare + items.iter().map(owned).sum::<usize>()
}

/// Number of items whose size is measured to estimate the size of their batch.
const SOME: usize = 8;

/// Returns the estimated memory of a batch in bytes. In a batch of more than [`SOME`] items, only about [`SOME`] evenly spaced items are measured,
/// because a batch is assumed to have many items only if they are small.
pub(crate) fn weigh_some<T: Item>(items: &[T]) -> usize {
    if !std::mem::needs_drop::<T>() || items.len() <= SOME {
        return weigh(items);
    }
    let (mut bytes, mut weighed) = (0, 0);
    for item in items.iter().step_by(items.len().div_ceil(SOME)) {
        bytes += owned(item);
        weighed += 1;
    }
    size_of_val(items) + bytes * items.len() / weighed
}

/// Returns the encoded size in bytes of an item, as an estimate of the memory that the item owns on the heap.
fn owned<T: Item>(item: &T) -> usize {
    macro_rules! contiguous_types {
        ($($contiguous:ty),*) => {
            $(if let Some(item) = (item as &dyn Any).downcast_ref::<$contiguous>() {
                return item.bytes().len();
            })*
        };
    }
    contiguous_types!(
        Vec<u8>,
        Vec<f64>,
        Vec<f32>,
        String,
        Vec<u64>,
        Vec<i64>,
        Vec<u32>,
        Vec<i32>,
        Vec<usize>,
        Bytes,
        BytesMut
    );
    let mut counter = Counter(0);
    // The type's `Serialize` may panic. The panic is ignored here, because it occurs again, and is reported, when the item is encoded.
    match user_code::call(|| value::write(item, &mut counter)) {
        Ok(()) => counter.0,
        Err(_) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::{Deserialize, Serialize};

    #[derive(Serialize, Deserialize)]
    struct Picture {
        name: String,
        pixels: Vec<u8>,
    }

    #[test]
    fn owned_heap_memory_counts() {
        assert_eq!((weigh(&[1u64, 2]), weigh::<u64>(&[]), weigh(&[[0u8; 3]; 5])), (16, 0, 15));
        assert_eq!(weigh(&[vec![0.5; 1000], vec![]]), 8000 + 2 * size_of::<Vec<f64>>());
        assert_eq!(weigh(&["abc".to_string()]), 3 + size_of::<String>());
        let texts: Vec<String> = (0..20).map(|n| "x".repeat(n)).collect();
        assert_eq!(weigh_some(&texts[..5]), weigh(&texts[..5]));
        // The memory of every third of the twenty texts is measured, from text 0 on: seven texts with 63 bytes in total.
        assert_eq!(weigh_some(&texts), 63 * 20 / 7 + 20 * size_of::<String>());
        let picture = Picture { name: "a".into(), pixels: vec![7; 100_000] };
        let owned = weigh(&[picture]) - size_of::<Picture>();
        assert!((100_001..100_020).contains(&owned), "{owned}");
    }

    #[test]
    fn unencodable_items_count_by_their_size() {
        struct Odd(#[allow(dead_code)] String);
        impl Serialize for Odd {
            fn serialize<S: serde::Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
                panic!("never")
            }
        }
        impl<'de> Deserialize<'de> for Odd {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                String::deserialize(from).map(Odd)
            }
        }
        assert_eq!(weigh(&[Odd(String::new())]), size_of::<Odd>());
    }
}

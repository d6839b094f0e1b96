//! Digests of sets of tasks, which show whether a set differs from the set whose results are in the journal.

use crate::comm::Part;
use crate::error::Result;
use crate::wire::erased::{Codec, Items};

/// Digest of a set of tasks: the number of tasks, and a hash that very likely differs if the tasks differ.
///
/// The encoded bytes of a task may have another order each time, as those of a `HashMap` do. The hash therefore depends on the number of
/// bytes, their sum and the sum of their squares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TaskSetDigest {
    tasks: u64,
    sum: u64,
}

impl TaskSetDigest {
    /// # Errors
    /// If a task of the set cannot be encoded or decoded.
    pub(crate) fn of(tasks: Items, codec: &dyn Codec) -> Result<(Self, Items)> {
        let mut digest = TaskSetDigest { tasks: tasks.len() as u64, sum: 0 };
        let tasks = codec.encode_each(tasks, &mut 0, &mut |head, parts| {
            digest.add(head, parts);
            Ok(())
        })?;
        Ok((digest, tasks))
    }

    fn add(&mut self, head: &[u8], parts: &[Part]) {
        for bytes in std::iter::once(head).chain(parts.iter().map(Part::bytes)) {
            let (mut sum, mut squares) = (0u64, 0u64);
            for &byte in bytes {
                let byte = u64::from(byte);
                sum += byte;
                squares += byte * byte;
            }
            for value in [bytes.len() as u64, sum, squares] {
                // The constant is the multiplier of the 64-bit FNV hash.
                self.sum = (self.sum ^ value).wrapping_mul(0x0100_0000_01b3).rotate_left(23);
            }
        }
    }

    /// Returns the number of tasks in the set that a journal record describes; 0 if the record is no digest.
    pub(crate) fn tasks_in(record: &[u8]) -> u64 {
        record.first_chunk().map_or(0, |tasks| u64::from_le_bytes(*tasks))
    }

    pub(crate) fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[..8].copy_from_slice(&self.tasks.to_le_bytes());
        bytes[8..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::erased::typed;
    use crate::wire::{self, Item};
    use std::collections::HashMap;

    fn digest<I: Item>(tasks: Vec<I>) -> [u8; 16] {
        TaskSetDigest::of(Box::new(tasks), &wire::Codec::<I>::of_type()).unwrap().0.to_bytes()
    }

    #[test]
    fn different_tasks_have_different_digests() {
        let set = digest(vec![1u64, 2, 3]);
        assert_eq!(set, digest(vec![1u64, 2, 3]));
        for other in [vec![1u64, 2], vec![1, 3, 2], vec![2, 2, 2], vec![1, 2, 3 << 8 | 1], vec![]] {
            assert_ne!(set, digest(other));
        }
        assert_ne!(digest(vec![vec![0.5; 9_000]]), digest(vec![vec![0.25; 9_000]]));
    }

    #[test]
    fn map_order_does_not_affect_the_digest() {
        // The encoded bytes of equal sets differ, because each `HashMap` has its own order of iteration.
        let map = |last| (0..100).chain([last]).map(|n| (n, n * n)).collect::<HashMap<u32, u32>>();
        assert_eq!(digest(vec![map(500)]), digest(vec![map(500)]));
        assert_ne!(digest(vec![map(500)]), digest(vec![map(501)]));
    }

    #[test]
    fn digest_returns_the_tasks_unchanged() {
        let texts = vec!["a".to_string(), String::new()];
        let codec = wire::Codec::<String>::of_type();
        let (_, tasks) = TaskSetDigest::of(Box::new(texts.clone()), &codec).unwrap();
        assert_eq!(typed::<String>(tasks).unwrap(), texts);
    }
}

//! Buffers for bulk data, used again and again.
//!
//! An allocator gives large freed blocks back to the system and gets them anew, page by page, with the next
//! allocation; for messages of 64 KiB to 1 MiB these page faults cost several times as much as the message. So a
//! buffer whose last reader is gone returns to its rank's pool.

use std::collections::TryReserveError;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// Smaller buffers come from the allocator and go back to it.
const SMALLEST: usize = 4096;

/// Freed buffers of one rank, kept for its next messages. Clones are the same pool.
#[derive(Clone)]
pub(super) struct Pool {
    shelves: Arc<Mutex<Shelves>>,
    most: usize,
}

#[derive(Default)]
struct Shelves {
    /// Buffers by size class.
    classes: Vec<Vec<Vec<u8>>>,
    /// Bytes of all of them.
    kept: usize,
}

/// A size class: four to each power of two, so that at most a quarter of a buffer is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Class {
    index: usize,
    bytes: usize,
}

impl Class {
    /// The smallest class with room for `length` bytes, which must be at least [`SMALLEST`].
    fn of(length: usize) -> Option<Self> {
        let step = 1usize << (length.checked_ilog2()?.checked_sub(2)?);
        let bytes = length.checked_next_multiple_of(step)?;
        let log = bytes.ilog2();
        let quarter = (bytes >> (log - 2)) & 3;
        Some(Class { index: 4 * (log - SMALLEST.ilog2()) as usize + quarter, bytes })
    }
}

impl Pool {
    /// A pool that keeps up to `most` bytes of buffers that nobody uses.
    pub(super) fn new(most: usize) -> Self {
        Pool { shelves: Arc::default(), most }
    }

    /// An empty buffer with room for `length` bytes.
    pub(super) fn take(&self, length: usize) -> Result<Vec<u8>, TryReserveError> {
        let mut bytes = length;
        if length >= SMALLEST
            && let Some(class) = Class::of(length)
        {
            let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(buffer) = shelves.classes.get_mut(class.index).and_then(Vec::pop) {
                shelves.kept -= buffer.capacity();
                return Ok(buffer);
            }
            bytes = class.bytes;
        }
        let mut buffer = Vec::new();
        buffer.try_reserve_exact(bytes)?;
        Ok(buffer)
    }

    /// The contents of `buffer` for any number of readers; after the last of them the pool has it back.
    pub(super) fn share(&self, buffer: Vec<u8>) -> Bytes {
        if buffer.capacity() < SMALLEST {
            return Bytes::from(buffer);
        }
        Bytes::from_owner(Lent { buffer, pool: self.clone() })
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        // Only what has exactly a class's size: the others did not come from here.
        let Some(class) = Class::of(capacity).filter(|class| class.bytes == capacity) else { return };
        let mut shelves = self.shelves.lock().unwrap_or_else(PoisonError::into_inner);
        if shelves.kept + capacity > self.most {
            return;
        }
        if shelves.classes.len() <= class.index {
            shelves.classes.resize_with(class.index + 1, Vec::new);
        }
        buffer.clear();
        shelves.kept += capacity;
        shelves.classes[class.index].push(buffer);
    }
}

/// A buffer that returns to its pool when it is dropped, on whatever thread that is.
struct Lent {
    buffer: Vec<u8>,
    pool: Pool,
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        self.pool.give_back(std::mem::take(&mut self.buffer));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(pool: &Pool) -> usize {
        pool.shelves.lock().unwrap().kept
    }

    #[test]
    fn classes_grow_with_the_length_and_waste_at_most_a_quarter() {
        let mut last = Class::of(SMALLEST).unwrap();
        assert_eq!(last, Class { index: 0, bytes: SMALLEST });
        for length in (SMALLEST..200_000).step_by(7).chain([1 << 20, (1 << 20) + 1, 1 << 40]) {
            let class = Class::of(length).unwrap();
            assert!(class.bytes >= length && class.bytes - length <= length / 4, "{length} {class:?}");
            assert_eq!(Class::of(class.bytes), Some(class), "a buffer returns to the class it came from");
            assert_eq!(class.index == last.index, class.bytes == last.bytes, "{class:?} {last:?}");
            assert!(class.index >= last.index);
            last = class;
        }
        assert_eq!(Class::of(usize::MAX), None);
    }

    #[test]
    fn a_buffer_returns_after_its_last_reader_and_is_used_again() {
        let pool = Pool::new(1 << 20);
        let mut buffer = pool.take(10_000).unwrap();
        buffer.extend([1, 2, 3]);
        let address = buffer.as_ptr();
        let bytes = pool.share(buffer);
        let part = bytes.slice(1..2);
        drop(bytes);
        assert_eq!((kept(&pool), &part[..]), (0, &[2][..]));
        std::thread::spawn(move || drop(part)).join().unwrap();
        assert_eq!(kept(&pool), 10_240);
        let again = pool.take(8_000).unwrap();
        assert_eq!((again.as_ptr() == address, kept(&pool)), (false, 10_240), "another class");
        let again = pool.take(10_001).unwrap();
        assert_eq!((again.as_ptr(), again.len(), kept(&pool)), (address, 0, 0));
    }

    #[test]
    fn the_pool_keeps_no_more_than_it_may_and_nothing_small() {
        let pool = Pool::new(10_000);
        let shared: Vec<_> = (0..5).map(|_| pool.share(pool.take(4_096).unwrap())).collect();
        drop(shared);
        assert_eq!(kept(&pool), 8_192);
        drop(pool.share(pool.take(100).unwrap()));
        assert_eq!(kept(&pool), 8_192);
        assert!(pool.take(usize::MAX).is_err());
    }
}

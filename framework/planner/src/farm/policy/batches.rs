//! Chunks that are prepared a batch at a time.

use std::collections::VecDeque;

/// Chunks that are prepared and not yet handed out.
#[derive(Clone, Debug, Default)]
pub(super) struct Prepared {
    sizes: VecDeque<u64>,
    tasks: u64,
}

impl Prepared {
    pub(super) fn clear(&mut self) {
        self.sizes.clear();
        self.tasks = 0;
    }

    /// Number of chunks.
    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    /// Tasks in them.
    pub(super) fn tasks(&self) -> u64 {
        self.tasks
    }

    /// A batch: `chunks` chunks of `size` tasks, of `left` tasks that are not in a batch yet; the last ones are
    /// shorter, or absent.
    pub(super) fn batch(&mut self, chunks: u64, size: u64, mut left: u64) {
        for _ in 0..chunks {
            let size = size.min(left);
            if size == 0 {
                break;
            }
            self.push(size);
            left -= size;
        }
    }

    /// The rest: `left` tasks in `chunks` chunks that differ by one at most, larger ones first, none empty.
    pub(super) fn rest(&mut self, chunks: u64, left: u64) {
        let (size, larger) = (left / chunks, left % chunks);
        for i in 0..chunks.min(left) {
            self.push(size + u64::from(i < larger));
        }
    }

    /// The next chunk, of which at most `most` tasks are handed out: what is above stays in front.
    pub(super) fn take(&mut self, most: u64) -> Option<u64> {
        let size = self.sizes.pop_front()?;
        let given = size.min(most);
        if given < size {
            self.sizes.push_front(size - given);
        }
        self.tasks -= given;
        Some(given)
    }

    fn push(&mut self, size: u64) {
        self.sizes.push_back(size);
        self.tasks += size;
    }
}

/// ⌈tasks / parts⌉, at least 1, of a number of parts that need not be whole.
pub(super) fn share(tasks: u64, parts: f64) -> u64 {
    let size = (tasks as f64 / parts).ceil();
    // What is no number, or too large, becomes what is left later on.
    if size >= 1.0 { size as u64 } else { 1 }
}

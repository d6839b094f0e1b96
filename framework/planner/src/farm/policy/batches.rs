//! Prepared chunks of tasks, which a chunk policy computes one batch (one chunk for each worker) at a time.

use std::collections::VecDeque;

/// Sizes of chunks of tasks that a policy has prepared and that have not been dispatched.
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

    pub(super) fn len(&self) -> usize {
        self.sizes.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.sizes.is_empty()
    }

    pub(super) fn tasks(&self) -> u64 {
        self.tasks
    }

    /// Appends a batch (one chunk for each worker): `chunks` chunks of `size` tasks, from `left` tasks that are not
    /// in a batch yet. The last chunks are smaller or missing if tasks run out.
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

    /// Appends all remaining tasks: `left` tasks in at most `chunks` chunks whose sizes differ by at most one, larger
    /// chunks first, without empty chunks.
    pub(super) fn rest(&mut self, chunks: u64, left: u64) {
        let (size, larger) = (left / chunks, left % chunks);
        for i in 0..chunks.min(left) {
            self.push(size + u64::from(i < larger));
        }
    }

    /// Removes the next chunk and returns its size. If the chunk has more than `most` tasks, `most` is returned and
    /// the rest of the chunk stays at the front.
    pub(super) fn take(&mut self, most: u64) -> Option<u64> {
        let size = self.sizes.pop_front()?;
        let dispatched = size.min(most);
        if dispatched < size {
            self.sizes.push_front(size - dispatched);
        }
        self.tasks -= dispatched;
        Some(dispatched)
    }

    fn push(&mut self, size: u64) {
        self.sizes.push_back(size);
        self.tasks += size;
    }
}

/// Returns the chunk size if `tasks` tasks are divided into `parts` chunks: ⌈tasks / parts⌉, at least 1. The number of chunks need not be an integer.
pub(super) fn share(tasks: u64, parts: f64) -> u64 {
    let size = (tasks as f64 / parts).ceil();
    // A chunk size of NaN becomes 1; the caller limits a size that is too large.
    if size >= 1.0 { size as u64 } else { 1 }
}

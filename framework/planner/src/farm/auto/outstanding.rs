//! Outstanding chunks of a farm: those that were dispatched, and whose results have not arrived.

use std::collections::VecDeque;

use super::super::by_worker::ByWorker;

/// Outstanding chunk (group of tasks) of a worker.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Out {
    pub(super) tasks: u64,
    pub(super) dispatched_at: f64,
    /// Earliest known time at which the worker can begin the chunk: the chunk has arrived, and the worker has
    /// completed its previous chunk.
    pub(super) arrives: f64,
}

/// Outstanding chunks of all workers. The cost of an operation does not grow with the number of workers, except where
/// all chunks are counted.
#[derive(Debug, Default)]
pub(super) struct Outstanding {
    /// For each worker, its chunks in the order of dispatch.
    chunks: ByWorker<VecDeque<Out>>,
    /// Worker of the chunk that was added last.
    newest: Option<usize>,
}

impl Outstanding {
    pub(super) fn push(&mut self, worker: usize, chunk: Out) {
        self.chunks.get_or_default(worker).push_back(chunk);
        self.newest = Some(worker);
    }

    /// Returns the chunk that was added last, if it was not removed.
    pub(super) fn newest_mut(&mut self) -> Option<&mut Out> {
        self.chunks.get_mut(self.newest?)?.back_mut()
    }

    pub(super) fn pop_newest(&mut self) {
        if let Some(chunks) = self.newest.take().and_then(|worker| self.chunks.get_mut(worker)) {
            chunks.pop_back();
        }
    }

    pub(super) fn pop_oldest(&mut self, worker: usize) -> Option<Out> {
        self.chunks.get_mut(worker)?.pop_front()
    }

    pub(super) fn oldest_mut(&mut self, worker: usize) -> Option<&mut Out> {
        self.chunks.get_mut(worker)?.front_mut()
    }

    pub(super) fn remove(&mut self, worker: usize) {
        self.chunks.remove(worker);
    }

    /// Returns the chunks of a worker in the order of dispatch.
    pub(super) fn of(&self, worker: usize) -> impl Iterator<Item = &Out> {
        self.chunks.get(worker).into_iter().flatten()
    }

    /// Returns all chunks with the numbers of their workers, in ascending order of the numbers.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &Out)> {
        self.chunks.iter().flat_map(|(worker, chunks)| chunks.iter().map(move |chunk| (worker, chunk)))
    }
}

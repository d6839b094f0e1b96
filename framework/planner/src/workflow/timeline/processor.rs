//! State of one processor on the timeline of a workflow plan.

use std::collections::{BTreeMap, BTreeSet};

use super::buffer::Buffer;
use super::moment::Moment;

#[derive(Clone, Debug, Default)]
pub(super) struct Processor {
    /// End of the last task placed on the processor, in seconds.
    pub(super) ready: f64,
    /// Bytes in memory of files whose reading task has not been placed on a processor.
    pub(super) waiting_bytes: u64,
    /// Files in memory whose reading task has not been placed on a processor, by size. Empty files are left out, because evicting them frees no
    /// memory.
    pub(super) waiting: BTreeSet<(u64, usize)>,
    pub(super) leaving_bytes: u64,
    /// Files in memory that are being sent to another processor, by the end of their transfer, which is after the end of the last task.
    pub(super) leaving: BTreeMap<(Moment, usize), u64>,
    /// Contents of the buffer: evicted files, and files that arrived before the memory for their reader was reserved.
    pub(super) buffer: Buffer,
    /// Peak memory of the processor so far, in bytes: the largest number of bytes that were occupied while a task ran.
    pub(super) peak: u64,
    pub(super) lost: bool,
}

impl Processor {
    pub(super) fn keep(&mut self, file: usize, bytes: u64) {
        self.waiting_bytes += bytes;
        if bytes > 0 {
            self.waiting.insert((bytes, file));
        }
    }

    pub(super) fn drop_waiting(&mut self, file: usize, bytes: u64) {
        self.waiting_bytes -= bytes;
        self.waiting.remove(&(bytes, file));
    }

    /// Adds a file to the files that are being sent, until time `end`, unless the transfer ends before the next task can start.
    pub(super) fn send(&mut self, file: usize, bytes: u64, end: f64) {
        if bytes > 0 && end > self.ready {
            self.leaving_bytes += bytes;
            self.leaving.insert((Moment(end), file), bytes);
        }
    }

    pub(super) fn drop_leaving(&mut self, file: usize, end: f64) {
        if let Some(bytes) = self.leaving.remove(&(Moment(end), file)) {
            self.leaving_bytes -= bytes;
        }
    }

    pub(super) fn advance(&mut self, ready: f64) {
        self.ready = ready;
        while let Some((&key, &bytes)) = self.leaving.first_key_value()
            && key.0.0 <= ready
        {
            self.leaving.remove(&key);
            self.leaving_bytes -= bytes;
        }
    }
}

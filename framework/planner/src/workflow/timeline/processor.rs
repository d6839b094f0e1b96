//! State of one processor on the timeline of a workflow plan.

use std::collections::{BTreeMap, BTreeSet};

use super::buffer::Buffer;
use super::moment::Moment;

/// State of a processor after the tasks that have been placed on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Processor {
    /// End of the last task placed on the processor, in seconds.
    pub(super) ready: f64,
    /// Bytes in memory of files whose reader has not been placed yet.
    pub(super) waiting_bytes: u64,
    /// Files in memory whose reader has not been placed yet, by size. Empty files are left out, because evicting them frees no memory.
    pub(super) waiting: BTreeSet<(u64, usize)>,
    /// Total bytes of the files in the field `leaving` (files that are being sent).
    pub(super) leaving_bytes: u64,
    /// Files in memory that are being sent to another processor, by the end of their transfer, which is after the end of the last task.
    pub(super) leaving: BTreeMap<(Moment, usize), u64>,
    /// Contents of the buffer: evicted files, and files that arrived before the memory for their reader was reserved.
    pub(super) buffer: Buffer,
    /// Peak memory of the processor so far, in bytes: the largest number of bytes that were occupied while a task ran.
    pub(super) peak: u64,
    /// True if the processor is lost, so that no task can be placed on it.
    pub(super) lost: bool,
}

impl Processor {
    /// Adds a written file whose reader is not placed yet to the memory.
    pub(super) fn keep(&mut self, file: usize, bytes: u64) {
        self.waiting_bytes += bytes;
        if bytes > 0 {
            self.waiting.insert((bytes, file));
        }
    }

    /// Removes a file that waited for its reader, because it is read on this processor, evicted or sent.
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

    /// Removes from memory a file that is being sent, because it is evicted to the buffer.
    pub(super) fn drop_leaving(&mut self, file: usize, end: f64) {
        if let Some(bytes) = self.leaving.remove(&(Moment(end), file)) {
            self.leaving_bytes -= bytes;
        }
    }

    /// Sets the end of the last task to `ready`, and removes files whose transfers have ended by then.
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

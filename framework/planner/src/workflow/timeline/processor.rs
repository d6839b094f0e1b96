//! One processor on the timeline.

use std::collections::{BTreeMap, BTreeSet};

use super::buffer::Buffer;
use super::moment::Moment;

/// What a processor holds once it has run the tasks that are placed on it.
#[derive(Clone, Debug, Default)]
pub(super) struct Processor {
    /// When its last task ends.
    pub(super) ready: f64,
    /// Bytes in memory of files whose reader is not placed yet.
    pub(super) waiting_bytes: u64,
    /// The same files by size; files of no bytes are left out, since evicting them gains nothing.
    pub(super) waiting: BTreeSet<(u64, usize)>,
    /// Bytes of `leaving`.
    pub(super) leaving_bytes: u64,
    /// Files in memory that are on their way to another processor, by the moment when they have left, after `ready`.
    pub(super) leaving: BTreeMap<(Moment, usize), u64>,
    /// Files evicted, and files that arrived before the memory for their reader was free.
    pub(super) buffer: Buffer,
    /// Most bytes of memory that were counted while a task runs.
    pub(super) peak: u64,
    /// Whether no task can be placed here, because the processor is lost.
    pub(super) lost: bool,
}

impl Processor {
    /// A file is written whose reader is not placed yet.
    pub(super) fn keep(&mut self, file: usize, bytes: u64) {
        self.waiting_bytes += bytes;
        if bytes > 0 {
            self.waiting.insert((bytes, file));
        }
    }

    /// Such a file is read here, evicted, or on its way.
    pub(super) fn drop_waiting(&mut self, file: usize, bytes: u64) {
        self.waiting_bytes -= bytes;
        self.waiting.remove(&(bytes, file));
    }

    /// A file is on its way until `end`; what has left before the next task can start is counted no more.
    pub(super) fn send(&mut self, file: usize, bytes: u64, end: f64) {
        if bytes > 0 && end > self.ready {
            self.leaving_bytes += bytes;
            self.leaving.insert((Moment(end), file), bytes);
        }
    }

    /// A file on its way moves into the buffer.
    pub(super) fn drop_leaving(&mut self, file: usize, end: f64) {
        if let Some(bytes) = self.leaving.remove(&(Moment(end), file)) {
            self.leaving_bytes -= bytes;
        }
    }

    /// The last task ends at `ready`, and what has left by then is gone.
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

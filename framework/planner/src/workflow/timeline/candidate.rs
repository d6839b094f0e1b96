//! Possible placement of a task on a processor, which a list scheduler compares with others.

use crate::workflow::plan::Transfer;

/// Times of a possible placement of a task, and the memory left on the processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) struct PlacementResult {
    pub(in crate::workflow) start: f64,
    pub(in crate::workflow) finish: f64,
    /// Bytes of memory that are free after the end of the task, if only files that wait for a reader remain in memory.
    pub(in crate::workflow) memory_left: u64,
}

/// Details of a possible placement of a task. `Timeline::try_on` determines them, and `Timeline::place` carries them out.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    /// Time from which memory is reserved for the task.
    pub(super) reserved: f64,
    /// Files in memory that wait for a reader and are evicted before the memory of the task is reserved.
    pub(super) evicted: Vec<usize>,
    /// Files in memory that are being sent and are evicted before the memory of the task is reserved, each with the end of its transfer.
    pub(super) diverted: Vec<(usize, f64)>,
    pub(super) transfers: Vec<Transfer>,
    /// Bytes of memory that are occupied while the task runs, including files of other tasks.
    pub(super) peak: u64,
    /// Bytes that the placement adds to the buffer of the processor.
    pub(super) buffered: u64,
    /// Bytes that the task reads from the buffer of its processor.
    pub(super) read_back: u64,
    /// For each sending processor, the time at which its channel to the task's processor becomes free. An entry is valid if its first number equals
    /// `stamp`.
    pub(super) channels: Vec<(u64, f64)>,
    pub(super) stamp: u64,
}

impl Candidate {
    pub(super) fn clear(&mut self, processors: usize) {
        self.channels.resize(processors, (0, 0.0));
        self.stamp += 1;
        self.evicted.clear();
        self.diverted.clear();
        self.transfers.clear();
        (self.peak, self.buffered, self.read_back) = (0, 0, 0);
    }

    pub(super) fn channel(&self, sender: usize) -> Option<f64> {
        let (stamp, free) = self.channels[sender];
        (stamp == self.stamp).then_some(free)
    }
}

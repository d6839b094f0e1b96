//! What placing a task on a processor would come to.

use crate::workflow::plan::Transfer;

/// When the task would run, and what the processor would have left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) struct Outcome {
    pub(in crate::workflow) start: f64,
    pub(in crate::workflow) finish: f64,
    /// Memory that no file takes that waits for a reader, once the task has ended.
    pub(in crate::workflow) memory_left: u64,
}

/// How a task would be placed: filled by `Timeline::try_on`, carried out by `Timeline::place`.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    /// From this moment on the task's memory is kept for it.
    pub(super) reserved: f64,
    /// Files of the processor that have been evicted by that moment: those that wait for a reader …
    pub(super) evicted: Vec<usize>,
    /// … and those on their way, each with the moment when it has left.
    pub(super) diverted: Vec<(usize, f64)>,
    pub(super) transfers: Vec<Transfer>,
    /// Memory counted while the task runs.
    pub(super) peak: u64,
    /// Bytes that the task brings into the buffer.
    pub(super) buffered: u64,
    /// Bytes that it reads from there.
    pub(super) read_back: u64,
    /// For each sender, when its channel to the processor would be free; valid where the stamp is that of this candidate.
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

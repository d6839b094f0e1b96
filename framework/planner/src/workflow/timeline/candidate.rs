//! Possible placement of a task on a processor.

use crate::workflow::plan::Transfer;

/// Times of a possible placement, and the memory left on the processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::workflow) struct Outcome {
    pub(in crate::workflow) start: f64,
    pub(in crate::workflow) finish: f64,
    /// Memory in bytes that is not occupied by files that wait for a reader, after the end of the task.
    pub(in crate::workflow) memory_left: u64,
}

/// Details of a possible placement: filled by `Timeline::try_on`, carried out by `Timeline::place`.
#[derive(Clone, Debug, Default)]
pub(super) struct Candidate {
    /// Time from which the memory of the task is reserved.
    pub(super) reserved: f64,
    /// Files waiting for a reader on the processor that are evicted before the memory of the task is reserved.
    pub(super) evicted: Vec<usize>,
    /// Files being sent that are evicted before the memory of the task is reserved, each with the end of its transfer.
    pub(super) diverted: Vec<(usize, f64)>,
    pub(super) transfers: Vec<Transfer>,
    /// Memory counted while the task runs.
    pub(super) peak: u64,
    /// Bytes that the placement adds to the buffer.
    pub(super) buffered: u64,
    /// Bytes that the task reads from the buffer.
    pub(super) read_back: u64,
    /// For each sender, the time at which its channel to the processor becomes free; valid if the stamp is that of this candidate.
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

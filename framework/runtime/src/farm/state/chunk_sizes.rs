//! Sizes of chunks: the policy that chooses the number of tasks in a chunk, and the measurements on which its choice depends.

use std::time::Duration;

use armature_planner::farm::{Choice, ChunkDone, Chunker, Chunking, Knowledge, Supply as Remaining};

use super::super::traffic::{TrafficStats, ahead_of_members};

/// Chunk whose size is chosen, but whose tasks the source has not returned yet. The size is kept, because the policy must be asked only once for each
/// chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    pub(super) worker: usize,
    pub(super) sized_for: usize,
    pub(super) size: u64,
}

#[derive(Debug)]
pub(crate) struct ChunkSizes {
    chunker: Chunker,
    knowledge: Knowledge,
    chunking: Chunking,
    reserved: Option<Reserved>,
    /// Number of chunks that a rank may hold for each of its workers in addition to the running ones.
    ahead: f64,
}

impl ChunkSizes {
    pub(super) fn new(chunking: Chunking, computes: bool) -> Self {
        ChunkSizes {
            chunker: Chunker::new(chunking),
            knowledge: Knowledge { master: computes.then_some(0), ..Knowledge::default() },
            chunking,
            reserved: None,
            ahead: 0.0,
        }
    }

    pub(super) fn expect_speeds(&mut self, speeds: &[f64]) {
        speeds.iter().enumerate().for_each(|(rank, &speed)| self.chunker.expect_speed(rank, speed));
    }

    pub(super) fn begin(&mut self, left: Remaining, workers: &[usize]) {
        self.reserved = None;
        self.chunker.begin(left, workers, &self.knowledge);
    }

    pub(super) fn is_automatic(&self) -> bool {
        self.chunking == Chunking::Auto
    }

    pub(super) fn workers(&self) -> usize {
        self.chunker.workers().len()
    }

    pub(super) fn ahead(&self) -> f64 {
        self.ahead
    }

    /// Passes measurements to the chunk size policy. `sub_masters` is the number of sub-masters, which send chunks at the same time.
    pub(super) fn update(&mut self, traffic: &TrafficStats, sub_masters: usize, ahead: f64, now: Duration) {
        self.knowledge.now = now.as_secs_f64();
        self.knowledge.messages = traffic.messages(sub_masters);
        self.knowledge.latency = traffic.latency();
        self.knowledge.task_bytes = traffic.task_bytes();
        self.knowledge.result_bytes = traffic.result_bytes();
        self.ahead = ahead;
        self.knowledge.ahead = if sub_masters > 0 { ahead_of_members(ahead) } else { ahead.ceil() as u32 };
    }

    pub(super) fn set_remaining(&mut self, left: u64) {
        self.chunker.set_supply(Remaining::Exactly(left), &self.knowledge);
    }

    pub(super) fn next(&mut self, worker: usize, most: u64) -> u64 {
        self.chunker.next_up_to(worker, most, &self.knowledge).unwrap_or(1)
    }

    pub(crate) fn return_tasks(&mut self, tasks: u64) {
        self.chunker.return_tasks(tasks);
    }

    pub(crate) fn reserve(&mut self, worker: usize, sized_for: usize, size: u64) {
        self.reserved = Some(Reserved { worker, sized_for, size });
    }

    pub(super) fn take_reserved(&mut self) -> Option<Reserved> {
        self.reserved.take()
    }

    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// Reports completed tasks of a chunk to the chunk size policy; `are_last` is true if no tasks of the chunk are left.
    pub(super) fn done(&mut self, tasks: &ChunkDone, are_last: bool) {
        if are_last { self.chunker.done(tasks) } else { self.chunker.done_in_part(tasks) }
    }

    pub(super) fn join(&mut self, worker: usize) {
        self.chunker.join(worker);
    }

    pub(super) fn leave(&mut self, worker: usize) {
        self.chunker.leave(worker);
    }

    /// Returns the latest selection of a chunk size policy, only on the first call after the selection.
    pub(crate) fn take_choice(&mut self) -> Option<Choice> {
        self.chunker.take_choice()
    }
}

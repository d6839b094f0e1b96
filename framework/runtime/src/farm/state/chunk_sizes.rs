//! How many tasks the next chunk has: the planner's policy, and what it knows.

use std::time::Duration;

use armature_planner::farm::{Choice, ChunkDone, Chunker, Chunking, Knowledge, Supply as Remaining};

use super::super::traffic::TrafficStats;

/// Tasks that the source has been asked for, and for whom: the policy is asked once for each chunk.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reserved {
    pub(super) worker: usize,
    pub(super) sized_for: usize,
    pub(super) size: u64,
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct ChunkSizes {
    chunker: Chunker,
    knowledge: Knowledge,
    chunking: Chunking,
    reserved: Option<Reserved>,
}

impl ChunkSizes {
    /// Sizes as this policy has them; `computes` says whether rank 0 does tasks, too.
    pub(super) fn new(chunking: Chunking, computes: bool) -> Self {
        ChunkSizes {
            chunker: Chunker::new(chunking),
            knowledge: Knowledge { master: computes.then_some(0), ..Knowledge::default() },
            chunking,
            reserved: None,
        }
    }

    /// A set of tasks begins, for these workers.
    pub(super) fn begin(&mut self, left: Remaining, workers: &[usize]) {
        self.reserved = None;
        self.chunker.begin(left, workers, &self.knowledge);
    }

    /// Whether the policy is the farm's own choice. One that was asked for is followed to the message.
    pub(super) fn is_automatic(&self) -> bool {
        self.chunking == Chunking::Auto
    }

    /// The workers that the policy counts with.
    pub(super) fn workers(&self) -> usize {
        self.chunker.workers().len()
    }

    /// Chunks that workers may hold ahead, as the policy knows it.
    pub(super) fn ahead(&self) -> u32 {
        self.knowledge.ahead
    }

    /// Brings what the policy knows up to date, where `sub_masters` send to their members at the same time.
    pub(super) fn update(&mut self, traffic: &TrafficStats, sub_masters: usize, ahead: u32, now: Duration) {
        self.knowledge.now = now.as_secs_f64();
        self.knowledge.messages = traffic.messages(sub_masters);
        self.knowledge.latency = traffic.latency();
        self.knowledge.task_bytes = traffic.task_bytes();
        self.knowledge.result_bytes = traffic.result_bytes();
        self.knowledge.ahead = ahead;
    }

    /// Exactly this many tasks are left.
    pub(super) fn set_remaining(&mut self, left: u64) {
        self.chunker.set_supply(Remaining::Exactly(left), &self.knowledge);
    }

    /// The size of the next chunk for a worker, at most `most`.
    pub(super) fn next(&mut self, worker: usize, most: u64) -> u64 {
        self.chunker.next_up_to(worker, most, &self.knowledge).unwrap_or(1)
    }

    /// Tasks of a size that was taken are not in a chunk after all.
    pub(crate) fn give_back(&mut self, tasks: u64) {
        self.chunker.give_back(tasks);
    }

    /// The source has not answered yet: `worker` gets the tasks when it has.
    pub(crate) fn reserve(&mut self, worker: usize, sized_for: usize, size: u64) {
        self.reserved = Some(Reserved { worker, sized_for, size });
    }

    /// Takes out who waits for the source's answer.
    pub(super) fn take_reserved(&mut self) -> Option<Reserved> {
        self.reserved.take()
    }

    /// Whether somebody waits for the source's answer.
    pub(crate) fn has_reserved(&self) -> bool {
        self.reserved.is_some()
    }

    /// Tasks of a chunk are done, perhaps the last ones.
    pub(super) fn done(&mut self, tasks: &ChunkDone, are_last: bool) {
        if are_last { self.chunker.done(tasks) } else { self.chunker.done_in_part(tasks) }
    }

    /// A worker takes part from now on.
    pub(super) fn join(&mut self, worker: usize) {
        self.chunker.join(worker);
    }

    /// A worker does not take part any more.
    pub(super) fn leave(&mut self, worker: usize) {
        self.chunker.leave(worker);
    }

    /// A new choice of the policy, if there is one.
    pub(crate) fn take_choice(&mut self) -> Option<Choice> {
        self.chunker.take_choice()
    }
}

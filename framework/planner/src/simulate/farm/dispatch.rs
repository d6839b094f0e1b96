//! Dispatcher of a simulated farm that chooses the sizes of chunks with a chunker, like a running farm.

use super::engine::{Dispatcher, Farm, Run};
use super::tasks::Tasks;
use crate::farm::{ChunkDone, Chunker, Knowledge, Supply};

/// Dispatcher that divides given tasks into the chunks of a [`Chunker`].
#[derive(Debug)]
pub struct Dispatch<'a> {
    chunker: &'a mut Chunker,
    tasks: &'a Tasks,
    knowledge: Knowledge,
    dispatched: u64,
    /// Time in seconds at which the simulated iteration begins.
    clock: f64,
    slowness: &'a [f64],
}

impl<'a> Dispatch<'a> {
    /// Creates a dispatcher whose workers take the times in `tasks`. The iteration begins at `knowledge.now`.
    pub fn new(chunker: &'a mut Chunker, tasks: &'a Tasks, knowledge: Knowledge) -> Self {
        Dispatch { chunker, tasks, clock: knowledge.now, knowledge, dispatched: 0, slowness: &[] }
    }

    /// Sets the slowness of the workers: worker w takes `slowness[w]` times as long for each task. The slowness of workers without an entry is 1.
    pub fn with_slowness(mut self, slowness: &'a [f64]) -> Self {
        self.slowness = slowness;
        self
    }

    /// Begins an iteration of the chunker with all tasks, and simulates the iteration.
    pub fn iteration(&mut self, farm: &Farm, workers: &[usize]) -> Run {
        self.dispatched = 0;
        self.chunker.begin(Supply::Exactly(self.tasks.len()), workers, &self.knowledge);
        farm.run(workers, self)
    }

    /// Simulates the tasks as a stream of unknown length: the chunker learns that the stream has ended only when the last task has been dispatched.
    pub fn stream(&mut self, farm: &Farm, workers: &[usize]) -> Run {
        self.dispatched = 0;
        self.chunker.begin(Supply::AtLeast(0), workers, &self.knowledge);
        farm.run(workers, self)
    }
}

impl Dispatcher for Dispatch<'_> {
    fn next(&mut self, worker: usize, now: f64) -> Option<u64> {
        self.knowledge.now = self.clock + now;
        let left = self.tasks.len() - self.dispatched;
        if left == 0 && !matches!(self.chunker.left(), Supply::Exactly(_)) {
            self.chunker.set_supply(Supply::Exactly(0), &self.knowledge);
        }
        let size = self.chunker.next_up_to(worker, left.max(1), &self.knowledge)?;
        Some(size)
    }

    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64) {
        let (sum, squares) = self.tasks.sums(self.dispatched, tasks);
        self.dispatched += tasks;
        let slow = self.slowness.get(worker).copied().unwrap_or(1.0);
        (slow * sum, slow * slow * squares)
    }

    fn done(&mut self, done: &ChunkDone) {
        self.chunker.done(done);
    }
}

//! What a policy is asked, and what it sees then.

use std::fmt;

use super::super::knowledge::{ChunkDone, Knowledge};
use super::super::statistics::TaskStatistics;

/// What a policy sees when it is asked.
#[derive(Clone, Copy, Debug)]
pub(in crate::farm) struct View<'a> {
    /// Iterations begun, the present one included.
    pub iteration: u64,
    /// Tasks of the iteration, M.
    pub total: u64,
    /// Tasks not yet handed out, R; more than 0.
    pub left: u64,
    /// Workers that take part, by ascending number; never empty.
    pub workers: &'a [usize],
    /// Times of tasks so far.
    pub statistics: &'a TaskStatistics,
    /// What the caller knows.
    pub knowledge: &'a Knowledge,
}

impl View<'_> {
    /// Number of workers, n.
    pub(in crate::farm) fn n(&self) -> u64 {
        self.workers.len() as u64
    }

    /// `kmin`; 1 without any data, None if no chunk is large enough.
    pub(in crate::farm) fn least_chunk(&self) -> Option<u64> {
        if self.statistics.all().count() == 0 {
            return Some(1);
        }
        self.knowledge.least_chunk(self.workers.len(), self.statistics.all().mean())
    }
}

/// A policy. It may keep what it likes; what it says is held within 1 and what is left by its caller.
pub(in crate::farm) trait Policy: fmt::Debug + Send {
    /// An iteration begins, or the number of tasks that are left has changed otherwise than by handing out.
    fn begin(&mut self, view: &View<'_>);

    /// Tasks of the next chunk for `worker`, of which at most `most` will be handed out.
    fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64;

    /// A chunk has come back. It is in the statistics already.
    fn done(&mut self, _done: &ChunkDone) {}

    /// A copy in the present state, to try what would come.
    fn copy(&self) -> Box<dyn Policy>;
}

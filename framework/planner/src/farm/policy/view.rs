//! Interface of the chunk policies of a farm, and the input of the policies.

use std::fmt;

use super::super::knowledge::{ChunkDone, Knowledge};
use super::super::statistics::TaskStatistics;

/// Input of a chunk policy: state of the farm at a request.
#[derive(Clone, Copy, Debug)]
pub(in crate::farm) struct View<'a> {
    /// Number of iterations begun, including the current one.
    pub iteration: u64,
    /// Number of tasks of the iteration (M in the formulas of chunk policies).
    pub total: u64,
    /// Number of tasks not yet dispatched (R in the formulas of chunk policies); more than 0.
    pub left: u64,
    /// Numbers of the farm's workers in ascending order; never empty.
    pub workers: &'a [usize],
    pub statistics: &'a TaskStatistics,
    pub knowledge: &'a Knowledge,
}

impl View<'_> {
    pub(in crate::farm) fn n(&self) -> u64 {
        self.workers.len() as u64
    }

    pub(in crate::farm) fn expected_speed(&self, worker: usize) -> f64 {
        if !self.statistics.has_expected_speeds() {
            return 1.0;
        }
        let all: f64 = self.workers.iter().map(|&worker| self.statistics.expected_speed(worker)).sum();
        self.n() as f64 * self.statistics.expected_speed(worker) / all
    }

    /// Returns the minimum chunk size, [`Knowledge::least_chunk`]: 1 before any task was measured, `None` if no chunk
    /// is large enough for the master to serve all workers.
    pub(in crate::farm) fn least_chunk(&self) -> Option<u64> {
        if self.statistics.all().count() == 0 {
            return Some(1);
        }
        self.knowledge.least_chunk(self.workers.len(), self.statistics.all().mean())
    }
}

/// Chunk policy. A policy may keep any state; its caller clamps the sizes to the range from 1 to the number of remaining tasks.
pub(in crate::farm) trait Policy: fmt::Debug + Send {
    /// Begins an iteration, or adapts to a number of remaining tasks that changed other than by dispatch.
    fn begin(&mut self, view: &View<'_>);

    /// Returns the number of tasks of the next chunk for `worker`, of which at most `most` will be dispatched.
    fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64;

    /// Records a completed chunk, whose times are already part of the statistics.
    fn done(&mut self, _done: &ChunkDone) {}

    fn copy(&self) -> Box<dyn Policy>;
}

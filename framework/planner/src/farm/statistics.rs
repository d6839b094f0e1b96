//! What is known of the times of tasks.

use serde::{Deserialize, Serialize};

use super::by_worker::ByWorker;
use super::knowledge::ChunkDone;
use crate::estimate::Running;

/// Times of tasks, from the reports of finished chunks: over all of them, and of each worker.
///
/// ```
/// use armature_planner::farm::{ChunkDone, TaskStatistics};
///
/// let mut statistics = TaskStatistics::default();
/// // Two tasks of 4 and 7 s on worker 0, two of 13 and 16 s on worker 3.
/// statistics.add(&ChunkDone { worker: 0, tasks: 2, sum: 11.0, squares: 65.0, elapsed: 11.0 });
/// statistics.add(&ChunkDone { worker: 3, tasks: 2, sum: 29.0, squares: 425.0, elapsed: 29.0 });
/// assert_eq!((statistics.all().mean(), statistics.all().variance()), (10.0, 30.0));
/// assert_eq!(statistics.of(3).unwrap().mean(), 14.5);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TaskStatistics {
    all: Running,
    workers: ByWorker<WorkerTimes>,
    /// Σ w, Σ w k and Σ w z over chunks, from which the length of blocks is found.
    spread: Spread,
}

/// Times of the tasks of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkerTimes {
    /// Of single tasks, over the whole run.
    pub(super) tasks: Running,
    /// Tasks and seconds of the present iteration.
    pub(super) now: (u64, f64),
    /// Tasks and seconds of the last one.
    pub(super) last: (u64, f64),
    /// Σ k t_k and Σ k n_k over the worker's chunks k = 1, 2, …: time and tasks, recent chunks weighing more.
    pub(super) weighted: (f64, f64),
    chunks: u64,
}

/// Sums over chunks of more than one task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spread {
    chunks: u64,
    /// Tasks in them.
    tasks: f64,
    /// Σ T, Σ T²/k, of chunks with total time T and k tasks.
    times: f64,
    squares: f64,
}

impl TaskStatistics {
    /// One more chunk. Reports without tasks, or with times that are negative, above 1e60 or no numbers, are ignored.
    pub fn add(&mut self, done: &ChunkDone) {
        let Some(done) = done.usable() else { return };
        let tasks = Running::from_sums(done.tasks, done.sum, done.squares);
        self.all.merge(&tasks);
        let worker = self.workers.get_or_default(done.worker);
        worker.tasks.merge(&tasks);
        worker.now.0 = worker.now.0.saturating_add(done.tasks);
        worker.now.1 += done.sum;
        worker.chunks += 1;
        worker.weighted.0 += worker.chunks as f64 * done.sum;
        worker.weighted.1 += worker.chunks as f64 * done.tasks as f64;
        let k = done.tasks as f64;
        self.spread.chunks += 1;
        self.spread.tasks += k;
        self.spread.times += done.sum;
        self.spread.squares += done.sum * done.sum / k;
    }

    /// A new iteration begins.
    pub fn begin(&mut self) {
        for worker in self.workers.values_mut() {
            worker.last = std::mem::take(&mut worker.now);
        }
    }

    /// Forgets a worker, but not what it measured of the tasks.
    pub fn forget(&mut self, worker: usize) {
        self.workers.remove(worker);
    }

    /// Mean, deviation and number of all tasks.
    pub fn all(&self) -> &Running {
        &self.all
    }

    /// A worker's times, if it has finished a chunk.
    pub fn of(&self, worker: usize) -> Option<&Running> {
        self.times(worker).map(|times| &times.tasks)
    }

    pub(super) fn times(&self, worker: usize) -> Option<&WorkerTimes> {
        self.workers.get(worker)
    }

    /// Chunks that were reported.
    pub fn chunks(&self) -> u64 {
        self.spread.chunks
    }

    /// Over how many neighbouring tasks times are alike: 1 if tasks are independent, B if blocks of B tasks share
    /// one duration. From the variance between chunks against that of single tasks: a chunk of k independent tasks
    /// has the variance k σ², one of blocks of B the variance σ² (k B − (B² − 1)/3) for k ≥ B, blocks lying anyhow
    /// against chunks. 1 as long as there are fewer than four chunks.
    pub fn block(&self) -> f64 {
        let Spread { chunks, tasks, times, squares, .. } = self.spread;
        let variance = self.all.variance();
        if chunks < 4 || variance <= 0.0 {
            return 1.0;
        }
        // Σ T²/k − (Σ T)²/Σ k = Σ k (mean of a chunk − mean)², whose expectation is the sum of the variances of the
        // chunks' totals, each by its k, less what the common mean takes.
        let between = (squares - times * times / tasks).max(0.0);
        let (c, mean_size) = (chunks as f64, tasks / chunks as f64);
        let ratio = between / ((c - 1.0) * variance);
        // A chunk of k tasks has the variance k σ² ratio, with ratio = B − (B² − 1)/3k for blocks of B ≤ k tasks, and
        // k − (k² − 1)/3B for longer ones: solved for B, which is at most all tasks that were seen.
        let (k, thrice) = (mean_size, 3.0 * mean_size);
        let block = if ratio <= k - (k * k - 1.0) / thrice {
            let half = 0.5 * thrice;
            half - (half * half - thrice * ratio + 1.0).max(0.0).sqrt()
        } else if ratio < k {
            k * (k * k - 1.0) / (thrice * (k - ratio))
        } else {
            tasks
        };
        block.clamp(1.0, tasks)
    }
}

//! Statistics of the times of a farm's tasks.

use serde::{Deserialize, Serialize};

use super::by_worker::ByWorker;
use super::knowledge::ChunkDone;
use crate::estimate::Running;
use crate::range;

/// Task times from the reports of completed chunks, in total and for each worker.
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
    #[serde(default)]
    speeds: ByWorker<f64>,
    spread: Spread,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct WorkerTimes {
    pub(super) tasks: Running,
    /// Number of tasks of the current iteration that the worker completed, and the sum of their times in seconds.
    pub(super) now: (u64, f64),
    /// Number of tasks of the previous iteration that the worker completed, and the sum of their times in seconds.
    pub(super) last: (u64, f64),
    /// Weighted sums over the worker's chunks k = 1, 2, …, in which later chunks count more: Σ k t_k for the times t_k of the chunks, and Σ k n_k for
    /// their numbers of tasks n_k.
    pub(super) weighted: (f64, f64),
    chunks: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
struct Spread {
    chunks: u64,
    tasks: f64,
    /// Sum Σ T of the total times T of the chunks. The field `squares` is the sum Σ T²/k, where k is the number of tasks of the chunk.
    times: f64,
    squares: f64,
}

impl TaskStatistics {
    /// Adds the report of a completed chunk. Reports without tasks, or with times that are negative, above 1e60 or NaN, are ignored.
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

    /// Sets the expected speed of a worker relative to the others, which counts until the worker has completed a chunk. Speeds that are not from
    /// 1e-60 to 1e60 are ignored. Workers without a speed count as 1.
    pub fn expect_speed(&mut self, worker: usize, speed: f64) {
        if range::is_positive(speed) {
            self.speeds.insert(worker, speed);
        }
    }

    pub(super) fn has_expected_speeds(&self) -> bool {
        self.speeds.iter().next().is_some()
    }

    pub(super) fn expected_speed(&self, worker: usize) -> f64 {
        self.speeds.get(worker).copied().unwrap_or(1.0)
    }

    /// Begins the task times of a new iteration of the farm.
    pub fn begin(&mut self) {
        for worker in self.workers.values_mut() {
            worker.last = std::mem::take(&mut worker.now);
        }
    }

    /// Discards the task times of a worker, but keeps them in the statistics of all tasks.
    pub fn forget(&mut self, worker: usize) {
        self.workers.remove(worker);
    }

    /// Returns the mean, the standard deviation and the number of all task times.
    pub fn all(&self) -> &Running {
        &self.all
    }

    /// Returns the statistics of the task times of a worker, if it has completed a chunk.
    pub fn of(&self, worker: usize) -> Option<&Running> {
        self.times(worker).map(|times| &times.tasks)
    }

    pub(super) fn times(&self, worker: usize) -> Option<&WorkerTimes> {
        self.workers.get(worker)
    }

    /// Returns the number of chunks whose completion workers have reported.
    pub fn chunks(&self) -> u64 {
        self.spread.chunks
    }

    /// Returns the number of adjacent tasks with similar times: 1 if the tasks are independent, B if blocks of B tasks have one common time. The
    /// number follows from the variance between chunks relative to the variance σ² of single tasks. A chunk of k independent tasks has the variance k
    /// σ². A chunk of blocks of B tasks at random offsets has the variance σ² (k B − (B² − 1)/3) for k ≥ B. The result is 1 for fewer than four
    /// chunks.
    pub fn block(&self) -> f64 {
        let Spread { chunks, tasks, times, squares, .. } = self.spread;
        let variance = self.all.variance();
        if chunks < 4 || variance <= 0.0 {
            return 1.0;
        }
        // Variation between chunks with total time T and k tasks: Σ T²/k − (Σ T)²/Σ k = Σ k (mean of a chunk − mean of all)². Its expectation is the
        // sum of the variances of the times T, each divided by its k, minus the variance of Σ T divided by Σ k.
        let between = (squares - times * times / tasks).max(0.0);
        let (c, mean_size) = (chunks as f64, tasks / chunks as f64);
        let ratio = between / ((c - 1.0) * variance);
        // The variance of a chunk of k tasks is k σ² · `ratio`, with the ratio B − (B² − 1)/3k for blocks of B ≤ k similar tasks, and k − (k² − 1)/3B
        // for longer blocks. The equation is solved for B, which is limited to the number of reported tasks.
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

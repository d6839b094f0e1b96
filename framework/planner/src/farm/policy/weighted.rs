//! Adaptive weighted factoring (AWF-B): a policy for the sizes of a farm's chunks, in which faster workers get more tasks of each batch.

use super::view::{Policy, View};

/// Adaptive weighted factoring by batches. The weight of a worker follows from its mean time per task, Σ k t_k / Σ k n_k, where its k-th chunk (k =
/// 1, 2, …) took the time t_k for n_k tasks; later chunks thus count more. The size of a batch is set when the batch begins. The weights are always
/// the latest ones.
#[derive(Clone, Debug, Default)]
pub(super) struct AwfB {
    /// Number of tasks in a chunk of the current batch for a worker of mean speed.
    even: u64,
    /// Number of tasks of the current batch that have not been sent to a worker.
    batch: u64,
    sums: Option<Sums>,
}

/// Sums over all workers, from which the weights of the workers follow.
#[derive(Clone, Copy, Debug)]
struct Sums {
    /// Number of reported chunks and of workers when the sums were computed.
    of: (u64, u64),
    /// Mean time per task of the measured workers, multiplied by their expected speeds.
    work: f64,
    /// Sum of the workers' speeds in tasks per second.
    speeds: f64,
}

/// Returns the mean time per task of a worker, if it was measured.
fn measured(worker: usize, view: &View<'_>) -> Option<f64> {
    let (time, tasks) = view.statistics.times(worker)?.weighted;
    (time > 0.0 && tasks > 0.0).then_some(time / tasks)
}

impl Sums {
    fn new(view: &View<'_>) -> Self {
        let (mut known, mut work) = (0, 0.0);
        for &worker in view.workers {
            if let Some(pace) = measured(worker, view) {
                known += 1;
                work += pace * view.statistics.expected_speed(worker);
            }
        }
        let work = if known == 0 { 1.0 } else { work / f64::from(known) };
        let mut sums = Sums { of: Sums::key(view), work, speeds: 0.0 };
        sums.speeds = view.workers.iter().map(|&worker| 1.0 / sums.pace(worker, view)).sum();
        sums
    }

    fn key(view: &View<'_>) -> (u64, u64) {
        (view.statistics.chunks(), view.n())
    }

    /// Returns the time per task of a worker. Without measurements it follows from the expected speed of the worker and the times of the others.
    fn pace(&self, worker: usize, view: &View<'_>) -> f64 {
        measured(worker, view).unwrap_or_else(|| self.work / view.statistics.expected_speed(worker))
    }
}

impl AwfB {
    /// Returns the speed of a worker, relative to the mean speed of all workers. The sums over all workers are computed again when a chunk was
    /// reported or the number of workers has changed.
    fn weight(&mut self, worker: usize, view: &View<'_>) -> f64 {
        let sums = match self.sums {
            Some(sums) if sums.of == Sums::key(view) => sums,
            _ => *self.sums.insert(Sums::new(view)),
        };
        view.n() as f64 / (sums.pace(worker, view) * sums.speeds)
    }
}

impl Policy for AwfB {
    fn begin(&mut self, _view: &View<'_>) {
        self.batch = 0;
        self.sums = None;
    }

    fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64 {
        if self.batch == 0 {
            self.even = view.left.div_ceil(2 * view.n());
            self.batch = view.left.min(self.even.saturating_mul(view.n()));
        }
        let size = (self.weight(worker, view) * self.even as f64 + 0.5).floor();
        let size = (size as u64).clamp(1, self.batch).min(most);
        self.batch -= size;
        size
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::farm::{ChunkDone, Knowledge, TaskStatistics};

    #[test]
    fn expected_speeds_count_until_a_worker_is_measured() {
        let knowledge = Knowledge::default();
        let mut statistics = TaskStatistics::default();
        statistics.expect_speed(1, 3.0);
        let sizes = |statistics: &TaskStatistics| {
            let (workers, knowledge) = (&[0, 1], &knowledge);
            let view = View { iteration: 1, total: 100, left: 100, workers, statistics, knowledge };
            let mut policy = AwfB::default();
            [0, 1].map(|worker| policy.next(worker, 100, &view))
        };
        assert_eq!(sizes(&statistics), [13, 37]);
        // Worker 1 turns out to be as fast as worker 0 is expected to be.
        statistics.add(&ChunkDone::timed(0, 10, 1.0));
        assert_eq!(sizes(&statistics), [13, 37]);
        statistics.add(&ChunkDone::timed(1, 10, 1.0));
        assert_eq!(sizes(&statistics), [25, 25]);
    }
}

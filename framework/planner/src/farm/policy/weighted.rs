//! Batches in which faster workers get more tasks: AWF-B.

use super::view::{Policy, View};

/// Adaptive weighted factoring by batches, with weights from π_i = Σ k t_k / Σ k n_k over the chunks of a worker. The size of a batch is set at its
/// beginning; the weights are always the latest ones.
#[derive(Clone, Debug, Default)]
pub(super) struct AwfB {
    /// Chunk size of the current batch for a worker of mean speed.
    even: u64,
    /// Number of tasks of the batch that are not dispatched.
    batch: u64,
}

/// Returns the speed of the worker, relative to the mean speed of all workers. A worker without measurements has the mean π of the others.
fn weight(worker: usize, view: &View<'_>) -> f64 {
    let pace = |worker: usize| {
        let (time, tasks) = view.statistics.times(worker)?.weighted;
        (time > 0.0 && tasks > 0.0).then_some(time / tasks)
    };
    let (mut known, mut paces, mut speeds) = (0, 0.0, 0.0);
    for pace in view.workers.iter().filter_map(|&worker| pace(worker)) {
        known += 1;
        paces += pace;
        speeds += 1.0 / pace;
    }
    if known == 0 {
        return 1.0;
    }
    let mean = paces / f64::from(known);
    speeds += (view.n() as f64 - f64::from(known)) / mean;
    view.n() as f64 / (pace(worker).unwrap_or(mean) * speeds)
}

impl Policy for AwfB {
    fn begin(&mut self, _view: &View<'_>) {
        self.batch = 0;
    }

    fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64 {
        if self.batch == 0 {
            self.even = view.left.div_ceil(2 * view.n());
            self.batch = view.left.min(self.even.saturating_mul(view.n()));
        }
        let size = (weight(worker, view) * self.even as f64 + 0.5).floor();
        let size = (size as u64).clamp(1, self.batch).min(most);
        self.batch -= size;
        size
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

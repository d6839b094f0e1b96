//! Chunk policy with batches in which faster workers get more tasks: AWF-B.

use super::view::{Policy, View};

/// Adaptive weighted factoring by batches. The weight of a worker follows from its mean time per task, Σ k t_k / Σ k n_k over its chunks k = 1, 2, …
/// with time t_k and n_k tasks, so that later chunks count more. The size of a batch is set when the batch begins; the weights are always the latest
/// ones.
#[derive(Clone, Debug, Default)]
pub(super) struct AwfB {
    /// Number of tasks in a chunk of the current batch for a worker of mean speed.
    even: u64,
    /// Number of tasks of the current batch that are not dispatched.
    batch: u64,
}

/// Returns the speed of a worker, relative to the mean speed of all workers. For a worker without measurements, the mean time per task of the other
/// workers is used.
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

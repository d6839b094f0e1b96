//! Chunk policy adaptive factoring, by mean and variance of each worker's task times.

use super::view::{Policy, View};

/// Returns the chunk size of adaptive factoring for worker i: (D + 2TR − √(D² + 4DTR)) / (2 µ_i), with R remaining tasks, D = Σ σ²/µ and T = 1/Σ(1/µ)
/// over all workers. `workers` are the pairs of mean µ and variance σ² of each worker's task times, and `mean` is µ_i. Some programs sum σ/µ instead,
/// which does not have the unit of T.
pub(in super::super) fn real_chunk(workers: impl Iterator<Item = (f64, f64)>, left: u64, mean: f64) -> f64 {
    let (mut d, mut speeds) = (0.0, 0.0);
    for (mean, variance) in workers {
        d += variance / mean;
        speeds += 1.0 / mean;
    }
    let (t, r) = (1.0 / speeds, left as f64);
    (d + 2.0 * t * r - (d * d + 4.0 * d * t * r).sqrt()) / (2.0 * mean)
}

/// Adaptive factoring (a rule for chunk sizes). A worker that has finished fewer than two tasks gets ⌈M/(20 n)⌉
/// tasks, for M tasks in total and n workers. If another worker has fewer than two tasks, the times of the requesting
/// worker are used in its place.
#[derive(Clone, Debug)]
pub(super) struct Af;

impl Policy for Af {
    fn begin(&mut self, _view: &View<'_>) {}

    fn next(&mut self, worker: usize, _most: u64, view: &View<'_>) -> u64 {
        let times = |worker: usize| {
            let tasks = view.statistics.of(worker)?;
            (tasks.count() >= 2 && tasks.mean() > 0.0).then(|| (tasks.mean(), tasks.variance()))
        };
        let Some(own) = times(worker) else { return view.total.div_ceil(20 * view.n()) };
        let all = view.workers.iter().map(|&other| times(other).unwrap_or(own));
        let size = real_chunk(all, view.left, own.0);
        if size >= 1.0 { size.ceil() as u64 } else { 1 }
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

//! Batches whose size follows from mean and deviation of task times.

use super::batches::{Prepared, share};
use super::view::{Policy, View};

/// Returns x of DAF: the first batch is R/x with x = 1 + (σ/µ)√(n/2) (1), a later one has 2 + … (2). `ratio` is σ/µ.
///
/// The underlying bound of the expected maximum of n chunks assumes the deviation σF for a chunk of F tasks, as if the tasks of a chunk were
/// equal. DAF is therefore robust if the tasks of a chunk are equal.
pub(in super::super) fn daf_divisor(first: bool, ratio: f64, workers: usize) -> f64 {
    let base = if first { 1.0 } else { 2.0 };
    base + ratio * (workers as f64 / 2.0).sqrt()
}

/// Returns x of factoring: with b = nσ/(2µ√R), 1 + b² + b√(b² + 2) for the first batch and 2 + b² + b√(b² + 4) for later ones.
pub(in super::super) fn fac_divisor(first: bool, ratio: f64, workers: usize, left: u64) -> f64 {
    let b = workers as f64 * ratio / (2.0 * (left as f64).sqrt());
    let base = if first { 1.0 } else { 2.0 };
    base + b * b + b * (b * b + 2.0 * base).sqrt()
}

/// Returns σ/µ of all tasks, if there are at least two.
fn ratio(view: &View<'_>) -> Option<f64> {
    let all = view.statistics.all();
    (all.count() >= 2 && all.mean() > 0.0).then(|| all.deviation() / all.mean())
}

/// Appends a batch, or all remaining tasks in n chunks if the chunks of the batch would be as small as `least`.
fn append(prepared: &mut Prepared, size: u64, least: Option<u64>, view: &View<'_>) {
    let left = view.left.saturating_sub(prepared.tasks());
    if least.is_some_and(|least| size > least) {
        prepared.batch(view.n(), size, left);
    } else {
        prepared.rest(view.n(), left);
    }
}

/// Factoring, FAC2 and FAC.
#[derive(Clone, Debug)]
pub(super) struct Factoring {
    by_deviation: bool,
    prepared: Prepared,
    first: bool,
    /// Chunk size at which the remaining tasks are divided evenly: 0 for FAC2, which never divides them, and 1 for FAC. Message costs are
    /// ignored.
    least: u64,
}

impl Factoring {
    pub(super) fn fac2() -> Self {
        Factoring { by_deviation: false, prepared: Prepared::default(), first: true, least: 0 }
    }

    pub(super) fn fac() -> Self {
        Factoring { by_deviation: true, least: 1, ..Factoring::fac2() }
    }
}

impl Policy for Factoring {
    fn begin(&mut self, _view: &View<'_>) {
        self.prepared.clear();
        self.first = true;
    }

    fn next(&mut self, _worker: usize, most: u64, view: &View<'_>) -> u64 {
        if self.prepared.is_empty() {
            let n = view.workers.len();
            let divisor = match ratio(view).filter(|_| self.by_deviation) {
                Some(ratio) => fac_divisor(self.first, ratio, n, view.left),
                None => 2.0,
            };
            let size = share(view.left, divisor * n as f64);
            append(&mut self.prepared, size, Some(self.least), view);
            self.first = false;
        }
        self.prepared.take(most).unwrap_or(1)
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// Dynamic adjusting factoring.
#[derive(Clone, Debug, Default)]
pub(super) struct Daf {
    prepared: Prepared,
    least: Option<u64>,
    /// True if σ/µ was known at the beginning of the iteration. Otherwise the iteration uses halves of the remaining tasks and measures σ/µ.
    adjusts: bool,
}

impl Daf {
    fn append(&mut self, first: bool, view: &View<'_>) {
        let left = view.left.saturating_sub(self.prepared.tasks());
        if left == 0 {
            return;
        }
        let n = view.workers.len();
        let divisor = match ratio(view).filter(|_| self.adjusts) {
            Some(ratio) => daf_divisor(first, ratio, n),
            None => 2.0,
        };
        let size = share(left, divisor * n as f64);
        append(&mut self.prepared, size, self.least, view);
    }
}

impl Policy for Daf {
    fn begin(&mut self, view: &View<'_>) {
        self.prepared.clear();
        self.least = view.least_chunk();
        self.adjusts = view.iteration > 1 && ratio(view).is_some();
        self.append(true, view);
        if self.adjusts {
            self.append(false, view);
        }
    }

    fn next(&mut self, _worker: usize, most: u64, view: &View<'_>) -> u64 {
        let few = if self.adjusts { 2 * self.prepared.len() < view.workers.len() } else { false };
        if few || self.prepared.is_empty() {
            self.append(false, view);
        }
        self.prepared.take(most).unwrap_or(1)
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

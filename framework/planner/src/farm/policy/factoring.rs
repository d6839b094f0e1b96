//! Batches whose size follows from mean and deviation.

use super::batches::{Prepared, share};
use super::view::{Policy, View};

/// x of DAF: the first batch is R/x with x = 1 + (σ/µ)√(n/2) (1), a later one with 2 + … (2). `ratio` is σ/µ.
///
/// The bound of the expected maximum of n chunks behind it gives a chunk of F tasks the deviation σF: tasks of a
/// chunk are taken for alike. That is what makes DAF robust where they are.
pub(in super::super) fn daf_divisor(first: bool, ratio: f64, workers: usize) -> f64 {
    let base = if first { 1.0 } else { 2.0 };
    base + ratio * (workers as f64 / 2.0).sqrt()
}

/// x of factoring: with b = nσ/(2µ√R), 1 + b² + b√(b² + 2) for the first batch and 2 + b² + b√(b² + 4) later.
pub(in super::super) fn fac_divisor(first: bool, ratio: f64, workers: usize, left: u64) -> f64 {
    let b = workers as f64 * ratio / (2.0 * (left as f64).sqrt());
    let base = if first { 1.0 } else { 2.0 };
    base + b * b + b * (b * b + 2.0 * base).sqrt()
}

/// σ/µ of all tasks, if there are two.
fn ratio(view: &View<'_>) -> Option<f64> {
    let all = view.statistics.all();
    (all.count() >= 2 && all.mean() > 0.0).then(|| all.deviation() / all.mean())
}

/// Appends a batch, or, where its chunks would be as small as `least`, all that is left in n chunks.
fn append(prepared: &mut Prepared, size: u64, least: Option<u64>, view: &View<'_>) {
    let left = view.left.saturating_sub(prepared.tasks());
    if least.is_some_and(|least| size > least) {
        prepared.batch(view.n(), size, left);
    } else {
        prepared.rest(view.n(), left);
    }
}

/// FAC2 and FAC.
#[derive(Clone, Debug)]
pub(super) struct Factoring {
    by_deviation: bool,
    prepared: Prepared,
    first: bool,
    /// FAC2 has no lower limit; FAC ends with what single tasks would be left. Neither looks at messages.
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
    /// σ/µ was known when the iteration began. If not, the iteration is one of halves, which collects it.
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

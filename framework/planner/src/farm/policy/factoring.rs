//! Chunk policies with batches whose size follows from mean and standard deviation of task times.

use super::batches::{Prepared, share};
use super::view::{Policy, View};

/// Returns the divisor x of the chunk policy DAF, which uses a batch of R/x of the R remaining tasks: x = 1 +
/// (σ/µ)√(n/2) for the first batch (equation 1 of Cesar et al. 2006) and 2 + (σ/µ)√(n/2) for later ones (equation 2).
/// `ratio` is σ/µ, the standard deviation of task times divided by their mean, and n is the number of workers.
///
/// The formula follows from a bound of the expected maximum of n chunks. The bound assumes that a chunk of F tasks
/// has the standard deviation σF, as if the tasks of a chunk were equal. DAF is therefore robust if the tasks of a
/// chunk are equal.
pub(in super::super) fn daf_divisor(first: bool, ratio: f64, workers: usize) -> f64 {
    let base = if first { 1.0 } else { 2.0 };
    base + ratio * (workers as f64 / 2.0).sqrt()
}

/// Returns the divisor of the policy FAC, by which the R remaining tasks are divided to get a batch. With b = nσ/(2µ√R), the divisor is 1 + b² +
/// b√(b² + 2) for the first batch and 2 + b² + b√(b² + 4) for later ones. `ratio` is σ/µ, the standard deviation of task times divided by their mean,
/// and n is the number of workers.
pub(in super::super) fn fac_divisor(first: bool, ratio: f64, workers: usize, left: u64) -> f64 {
    let b = workers as f64 * ratio / (2.0 * (left as f64).sqrt());
    let base = if first { 1.0 } else { 2.0 };
    base + b * b + b * (b * b + 2.0 * base).sqrt()
}

fn ratio(view: &View<'_>) -> Option<f64> {
    let all = view.statistics.all();
    (all.count() >= 2 && all.mean() > 0.0).then(|| all.deviation() / all.mean())
}

/// Appends a batch of chunks of `size` tasks, one for each worker. If `size` is at most the minimum `least`, or no size is large enough (`None`),
/// appends all remaining tasks in one chunk for each worker instead.
fn append(prepared: &mut Prepared, size: u64, least: Option<u64>, view: &View<'_>) {
    let left = view.left.saturating_sub(prepared.tasks());
    if least.is_some_and(|least| size > least) {
        prepared.batch(view.n(), size, left);
    } else {
        prepared.rest(view.n(), left);
    }
}

#[derive(Clone, Debug)]
pub(super) struct Factoring {
    by_deviation: bool,
    prepared: Prepared,
    first: bool,
    /// Chunk size at or below which all remaining tasks are divided evenly among the workers: 1 for the policy FAC,
    /// and 0 for FAC2, which never does this.
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

#[derive(Clone, Debug, Default)]
pub(super) struct Daf {
    prepared: Prepared,
    least: Option<u64>,
    /// True if the ratio of standard deviation and mean of task times was known at the beginning of the iteration.
    /// Otherwise each batch of the iteration has half of the remaining tasks, and the ratio is measured.
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

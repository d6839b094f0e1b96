//! Chunk policies with batches of a fraction of all tasks (FSC) or of the remaining tasks (DPF).

use super::super::knowledge::ChunkDone;
use super::batches::{Prepared, share};
use super::view::{Policy, View};
use crate::simulate::farm::{Dispatcher, Farm};

/// Chunk policy with batches of a constant fraction of the tasks.
#[derive(Clone, Debug)]
pub(super) struct Fraction {
    factor: f64,
    /// True if the fraction applies to the remaining tasks (DPF), false if it applies to all tasks (FSC).
    of_rest: bool,
    prepared: Prepared,
    least: Option<u64>,
}

impl Fraction {
    pub(super) fn new(factor: f64, of_rest: bool) -> Self {
        Fraction { factor, of_rest, prepared: Prepared::default(), least: Some(1) }
    }

    fn append(&mut self, view: &View<'_>) {
        let left = view.left.saturating_sub(self.prepared.tasks());
        let (of, parts) = (if self.of_rest { left } else { view.total }, view.n() as f64 / self.factor);
        let size = share(of, parts);
        // The minimum chunk size applies to the policy DPF only.
        if self.of_rest && self.least.is_none_or(|least| size <= least) {
            self.prepared.rest(view.n(), left);
        } else {
            self.prepared.batch(view.n(), size, left);
        }
    }
}

impl Policy for Fraction {
    fn begin(&mut self, view: &View<'_>) {
        self.prepared.clear();
        self.least = view.least_chunk();
    }

    fn next(&mut self, _worker: usize, most: u64, view: &View<'_>) -> u64 {
        if self.prepared.is_empty() {
            self.append(view);
        }
        self.prepared.take(most).unwrap_or(1)
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

/// Number of fractions that the chunk policies FSC and DPF compare: 0.1, 0.2, … 1, as in Cesar et al. (2006).
const FACTORS: u32 = 10;
/// Fraction of the tasks in a batch of the chunk policies FSC and DPF in the first two iterations.
pub(in crate::farm) const AT_FIRST: f64 = 0.25;
/// Maximum number of chunks per worker in the simulation of an iteration with one batch fraction; fractions with more
/// chunks are skipped. If each batch has a tenth of the remaining tasks, each reduction of the remaining tasks to 37 %
/// (1/e) takes about ten chunks per worker, and 10^18 tasks take 400. If workers are so unequal that chunks become
/// single tasks, the simulation would otherwise run for hours over all tasks and need memory for each.
const MOST_CHUNKS: usize = 1024;

/// Chunk policies FSC and DPF: from the third iteration on, each iteration selects the fraction of the tasks in a batch by a simulation in which
/// every worker has its mean task time of the last iteration.
#[derive(Clone, Debug)]
pub(super) struct Predictive {
    fraction: Fraction,
}

impl Predictive {
    pub(super) fn fsc() -> Self {
        Predictive { fraction: Fraction::new(AT_FIRST, false) }
    }

    pub(super) fn dpf() -> Self {
        Predictive { fraction: Fraction::new(AT_FIRST, true) }
    }

    /// Returns, of the batch fractions 0.1, 0.2, … 1, the first one with the shortest simulated time.
    fn choose(&self, view: &View<'_>) -> f64 {
        let last = |worker: usize| view.statistics.times(worker).map(|times| times.last);
        let (tasks, time) = view
            .workers
            .iter()
            .filter_map(|&worker| last(worker))
            .fold((0_u64, 0.0), |(tasks, time), (k, seconds)| (tasks.saturating_add(k), time + seconds));
        if tasks == 0 {
            return AT_FIRST;
        }
        let mean = time / tasks as f64;
        let means: Vec<f64> = view
            .workers
            .iter()
            .map(|&worker| match last(worker) {
                Some((k, seconds)) if k > 0 => seconds / k as f64,
                _ => mean,
            })
            .collect();
        let most = MOST_CHUNKS * view.workers.len();
        let mut best = (AT_FIRST, f64::INFINITY);
        for step in 1..=FACTORS {
            let factor = f64::from(step) / f64::from(FACTORS);
            let mut fraction = Fraction::new(factor, self.fraction.of_rest);
            fraction.begin(view);
            let mut forecast = Forecast { fraction, left: view.left, chunks: 0, most, means: &means, view };
            let time = Farm::new(*view.knowledge).run(view.workers, &mut forecast).time;
            if forecast.left == 0 && time < best.1 {
                best = (factor, time);
            }
        }
        best.0
    }
}

/// Simulated iteration in which every task takes its worker's mean time.
struct Forecast<'a> {
    fraction: Fraction,
    left: u64,
    chunks: usize,
    most: usize,
    means: &'a [f64],
    view: &'a View<'a>,
}

impl Dispatcher for Forecast<'_> {
    fn next(&mut self, worker: usize, _now: f64) -> Option<u64> {
        let left = self.left;
        if left == 0 || self.chunks == self.most {
            return None;
        }
        self.chunks += 1;
        let size = self.fraction.next(worker, left, &View { left, ..*self.view }).clamp(1, left);
        self.left -= size;
        Some(size)
    }

    fn compute(&mut self, worker: usize, tasks: u64) -> (f64, f64) {
        let place = self.view.workers.partition_point(|&other| other < worker);
        (tasks as f64 * self.means[place], 0.0)
    }

    fn done(&mut self, _done: &ChunkDone) {}
}

impl Policy for Predictive {
    fn begin(&mut self, view: &View<'_>) {
        self.fraction.factor = if view.iteration > 2 { self.choose(view) } else { AT_FIRST };
        self.fraction.begin(view);
    }

    fn next(&mut self, worker: usize, most: u64, view: &View<'_>) -> u64 {
        self.fraction.next(worker, most, view)
    }

    fn copy(&self) -> Box<dyn Policy> {
        Box::new(self.clone())
    }
}

//! What a task of a stream takes.

use std::ops::RangeInclusive;

use super::model::IterationModel;

/// The time of something that a farm does over and over, as a function of the number of workers: what
/// [`WorkerCount`](super::WorkerCount) compares.
pub trait Repeated {
    /// Seconds with `n` workers, 1 or more.
    fn time(&self, n: usize) -> f64;

    /// The most workers of `range` for which the time is valid, or the first of it.
    fn most_workers(&self, range: RangeInclusive<usize>) -> usize;

    /// Whether enough is known for a comparison.
    fn is_known(&self) -> bool;

    /// Whether workers that are set free may make up for some time that is lost.
    fn trades_time(&self) -> bool;
}

impl Repeated for IterationModel {
    fn time(&self, n: usize) -> f64 {
        IterationModel::time(self, n)
    }

    fn most_workers(&self, range: RangeInclusive<usize>) -> usize {
        IterationModel::most_workers(self, range)
    }

    fn is_known(&self) -> bool {
        self.validate().is_ok() && self.compute > 0.0
    }

    fn trades_time(&self) -> bool {
        true
    }
}

/// Independent tasks, one after the other. Messages travel, and the master works, while workers compute, so that only
/// two things bound it: what the master does for a task, and what the workers do.
///
/// ```
/// use armature_planner::farm::{Repeated, StreamModel};
///
/// // The master is busy for 0.1 ms with each task, a worker for 2 ms: 20 workers keep it busy.
/// let stream = StreamModel { serving: 1e-4, compute: 2e-3 };
/// assert_eq!((stream.time(4), stream.time(20), stream.time(40)), (5e-4, 1e-4, 1e-4));
/// assert_eq!(stream.busy(), 20.0);
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StreamModel {
    /// Seconds that a task takes the master: packing, sending, taking its result in.
    pub serving: f64,
    /// Seconds that it takes a worker.
    pub compute: f64,
}

impl StreamModel {
    /// The number of workers that keep the master busy all the time; infinite if serving costs nothing.
    pub fn busy(&self) -> f64 {
        self.compute / self.serving
    }
}

impl Repeated for StreamModel {
    fn time(&self, n: usize) -> f64 {
        self.serving.max(self.compute / n as f64)
    }

    fn most_workers(&self, range: RangeInclusive<usize>) -> usize {
        *range.end().max(range.start())
    }

    fn is_known(&self) -> bool {
        let usable = |seconds: f64| seconds > 0.0 && seconds.is_finite();
        usable(self.serving) && usable(self.compute)
    }

    fn trades_time(&self) -> bool {
        false
    }
}

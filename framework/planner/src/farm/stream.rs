//! Time of a task in a farm whose tasks arrive as a stream.

use std::ops::RangeInclusive;

use super::model::IterationModel;

/// Predicted time of an iteration of a farm, or of a task of a stream, as a function of the number of workers. [`WorkerCount`](super::WorkerCount)
/// compares these times.
pub trait Repeated {
    /// Returns the seconds of an iteration or task with `n` workers, where `n` is at least 1.
    fn time(&self, n: usize) -> f64;

    /// Returns the maximum number of workers in `range` for which [`time`](Repeated::time) is valid, or the first number of `range`.
    fn most_workers(&self, range: RangeInclusive<usize>) -> usize;

    /// Returns true if the model has the measurements that are needed to compare numbers of workers.
    fn is_known(&self) -> bool;

    /// Returns true if a longer time of an iteration or task is acceptable in return for fewer workers.
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

/// Model of independent tasks in a stream. Message transfers and the work of the master overlap with the work of the workers, so only two times
/// limit the stream: that of the master per task, and that of the workers per task.
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
    /// Seconds for which the master is busy with each task: serialising, sending, and receiving the result.
    pub serving: f64,
    /// Seconds that a worker takes for a task.
    pub compute: f64,
}

impl StreamModel {
    /// Returns the number of workers that keep the master busy all the time; infinite if the time of the master is 0.
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

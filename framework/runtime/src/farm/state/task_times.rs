//! Measured times of tasks on each rank, by which the farm chooses chunks for second copies, and predicts the number of tasks that
//! end before a time limit.

use std::time::Duration;

#[derive(Debug, Default)]
pub(crate) struct TaskTimes {
    /// Moving average of the seconds for a task, by rank; the last result counts half.
    pub(super) seconds_per_task: Vec<Option<f64>>,
    pub(super) last_result: Vec<Duration>,
}

impl TaskTimes {
    pub(super) fn new(size: usize) -> Self {
        TaskTimes { seconds_per_task: vec![None; size], last_result: vec![Duration::ZERO; size] }
    }

    /// Records the time of `count` tasks. The rank `by` has computed them, and `worker` has sent their result to rank 0.
    pub(crate) fn result(&mut self, [worker, by]: [usize; 2], (count, seconds): (u32, f64), now: Duration) {
        let last = seconds / f64::from(count.max(1));
        for rank in [Some(by), (worker != by).then_some(worker)].into_iter().flatten() {
            let seconds = &mut self.seconds_per_task[rank];
            *seconds = Some(seconds.map_or(last, |mean| (mean + last) / 2.0));
        }
        self.last_result[worker] = now;
    }

    /// Returns the seconds of a task on the rank; without a measurement there, the mean over all ranks.
    pub(crate) fn estimate(&self, rank: usize) -> Option<f64> {
        self.seconds_per_task[rank].or_else(|| {
            let known: Vec<f64> = self.seconds_per_task.iter().flatten().copied().collect();
            (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
        })
    }
}

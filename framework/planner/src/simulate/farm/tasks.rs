//! Times of the tasks of a simulated farm.

use crate::range;

/// Times of the tasks of a simulated farm in the order of dispatch.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// For each task, the sum and the sum of squares of the times of all tasks before it.
    before: Vec<(f64, f64)>,
}

impl Tasks {
    /// Creates tasks with the given times (s); negative times and NaN count as 0, times above 1e60 as 1e60.
    pub fn new(times: &[f64]) -> Self {
        let mut before = Vec::with_capacity(times.len() + 1);
        before.push((0.0, 0.0));
        let (mut sum, mut squares) = (0.0, 0.0);
        for time in times.iter().map(|&time| range::amount_or_nearest(time)) {
            sum += time;
            squares += time * time;
            before.push((sum, squares));
        }
        Tasks { before }
    }

    /// Returns the number of tasks.
    pub fn len(&self) -> u64 {
        self.before.len() as u64 - 1
    }

    /// Returns true if there are no tasks.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the sum and the sum of squares of the times of up to `count` tasks, beginning with task `first`.
    pub fn sums(&self, first: u64, count: u64) -> (f64, f64) {
        let until = |tasks: u64| self.before[tasks.min(self.len()) as usize];
        let (a, b) = (until(first), until(first.saturating_add(count)));
        (b.0 - a.0, b.1 - a.1)
    }
}

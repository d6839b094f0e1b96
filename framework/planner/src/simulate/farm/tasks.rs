//! The times of the tasks of a simulated farm.

use crate::range;

/// The times of tasks, in the order in which they are given.
#[derive(Clone, Debug, PartialEq)]
pub struct Tasks {
    /// Sums and sums of squares of the tasks before.
    before: Vec<(f64, f64)>,
}

impl Tasks {
    /// Tasks that take `times` (s) each; what is negative or no number counts as 0, what is above 1e60 as that.
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

    /// Number of tasks.
    pub fn len(&self) -> u64 {
        self.before.len() as u64 - 1
    }

    /// True if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Sum and sum of squares of `count` tasks from `first` on, as far as there are as many.
    pub fn sums(&self, first: u64, count: u64) -> (f64, f64) {
        let until = |tasks: u64| self.before[tasks.min(self.len()) as usize];
        let (a, b) = (until(first), until(first.saturating_add(count)));
        (b.0 - a.0, b.1 - a.1)
    }
}

//! Independent tasks of uneven length that really compute.
//!
//! A task advances a generator by a number of steps, like a stage of a [`synthetic_work`](crate::synthetic_work) pipeline. The expected result of a
//! task is computed in a few operations, without running the task.

use super::tasks::TaskShape;
use crate::{
    RunResult,
    synthetic_work::{REMAPPED, advance, advance_directly, fold, seconds_per_item},
};

/// Set of independent tasks of uneven length.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskSet {
    /// Number of tasks.
    pub tasks: usize,
    /// Mean length of a task in generator steps.
    pub mean: f64,
    /// Standard deviation of the length of a task, relative to the mean length.
    pub deviation: f64,
    /// Seed from which the task lengths are drawn.
    pub seed: u64,
}

impl TaskSet {
    /// Returns the length of each task in steps.
    ///
    /// # Errors
    /// If the mean is not a positive number.
    pub fn steps(&self) -> RunResult<Vec<u64>> {
        let TaskSet { tasks, mean, deviation, seed } = *self;
        let lengths = TaskShape { tasks, mean, spread: deviation, block: 1 }.iterations(seed)?.next();
        Ok(lengths.unwrap_or_default().into_iter().map(|steps| steps.round() as u64).collect())
    }

    /// Returns the checksum of the results of all tasks in their order, without running the tasks.
    ///
    /// # Errors
    /// Same as [`steps`](TaskSet::steps).
    pub fn expected(&self) -> RunResult<u64> {
        let results =
            self.steps()?.into_iter().zip(0..).map(|(steps, number)| advance_directly(number, steps));
        Ok(results.fold(0, fold))
    }
}

/// Runs task `number`, which advances its generator by `steps` steps, and returns its result.
pub fn work(number: u64, steps: u64) -> u64 {
    advance(number, steps)
}

/// Returns the number of generator steps that an undisturbed core computes in the given time.
pub fn steps_in(seconds: f64) -> f64 {
    let steps: u64 = REMAPPED.iter().map(|stage| stage.steps).sum();
    seconds * steps as f64 / seconds_per_item(REMAPPED)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stats::mean;

    #[test]
    fn task_lengths_have_the_requested_mean_and_deviation() {
        let task_set = TaskSet { tasks: 50_000, mean: 1e4, deviation: 0.8, seed: 3 };
        let steps: Vec<f64> = task_set.steps().unwrap().into_iter().map(|steps| steps as f64).collect();
        let mean = mean(&steps);
        let deviation = (steps.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / steps.len() as f64).sqrt();
        assert!((mean / 1e4 - 1.0).abs() < 0.02, "{mean}");
        assert!((deviation / mean - 0.8).abs() < 0.02, "{}", deviation / mean);
        assert!(TaskSet { mean: -1.0, ..task_set }.steps().is_err());
    }

    #[test]
    fn serial_results_equal_the_expected_checksum() {
        let task_set = TaskSet { tasks: 20, mean: 100.0, deviation: 0.5, seed: 1 };
        let steps = task_set.steps().unwrap();
        let done = steps.iter().zip(0..).map(|(&steps, number)| work(number, steps)).fold(0, fold);
        assert_eq!(done, task_set.expected().unwrap());
    }
}

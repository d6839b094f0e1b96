//! Parameters of the synthetic tasks.

use armature_apps::random::Random;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Gamma};

/// Number, times and sizes of the synthetic tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Number of tasks of an iteration.
    pub tasks: u64,
    /// Number of iterations. The tasks of an iteration depend on the results of the previous iteration.
    pub iterations: usize,
    /// Mean time of a task in seconds.
    pub mean: f64,
    /// Standard deviation of the time of a task, as a fraction of the mean.
    pub deviation: f64,
    /// Number of adjacent tasks with the same time; 1 makes all times independent.
    pub block: u64,
    /// Number of bytes sent to the worker with each task.
    pub task_bytes: usize,
    /// Number of bytes returned with each result.
    pub result_bytes: usize,
    /// Seed of the task times. Equal seeds give equal tasks.
    pub seed: u64,
}

/// Maximum number of bytes of an iteration, all of which rank 0 holds at the same time.
const MAX_BYTES: u64 = 4 << 30;

impl Plan {
    /// Checks that all numbers are in range and that an iteration fits into the memory of rank 0.
    ///
    /// # Errors
    /// A number is out of range, or an iteration has too many bytes for rank 0.
    pub fn check(&self) -> Result<(), String> {
        let Plan { mean, deviation, .. } = *self;
        if !(0.0..=3600.0).contains(&mean) {
            return Err(format!("mean of {mean} s: expected a time up to an hour"));
        }
        if !(0.0..=10.0).contains(&deviation) {
            return Err(format!("deviation of {} %: expected 0 to 1000", 100.0 * deviation));
        }
        let bytes =
            (self.task_bytes as u64).saturating_add(self.result_bytes as u64).saturating_mul(self.tasks);
        if bytes > MAX_BYTES {
            return Err(format!(
                "{} tasks of {} and {} bytes are {bytes} bytes an iteration: expected at most {MAX_BYTES}",
                self.tasks, self.task_bytes, self.result_bytes
            ));
        }
        Ok(())
    }

    /// Returns the time in seconds of each task of an iteration. One time is drawn from a gamma distribution for each block of adjacent tasks.
    pub fn times(&self, iteration: usize) -> Vec<f64> {
        let Plan { mean, deviation, .. } = *self;
        let mut random = StdRng::seed_from_u64(Random::stream(self.seed, iteration as u64).next_u64());
        let square = deviation * deviation;
        // The shape and the scale give the times their mean and deviation. For a deviation of zero there is no gamma distribution, and all tasks take
        // the mean time.
        let gamma = Gamma::new(1.0 / square, mean * square).ok().filter(|_| square > 0.0);
        let blocks = self.tasks.div_ceil(self.block.max(1));
        let draw = |_| gamma.map_or(mean, |gamma| gamma.sample(&mut random));
        let drawn: Vec<f64> = (0..blocks).map(draw).collect();
        (0..self.tasks).map(|task| drawn[(task / self.block.max(1)) as usize]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        tasks: 40_000,
        iterations: 3,
        mean: 0.002,
        deviation: 0.5,
        block: 1,
        task_bytes: 10,
        result_bytes: 20,
        seed: 7,
    };

    fn moments(times: &[f64]) -> (f64, f64) {
        let mean = times.iter().sum::<f64>() / times.len() as f64;
        let variance = times.iter().map(|t| (t - mean) * (t - mean)).sum::<f64>() / times.len() as f64;
        (mean, variance.sqrt())
    }

    #[test]
    fn task_times_have_the_requested_mean_and_deviation() {
        for deviation in [0.1, 0.5, 0.8, 1.5] {
            let times = Plan { deviation, ..PLAN }.times(0);
            let (mean, found) = moments(&times);
            assert!((mean / 0.002 - 1.0).abs() < 0.03, "{deviation}: mean {mean}");
            assert!((found / (0.002 * deviation) - 1.0).abs() < 0.05, "{deviation}: deviation {found}");
            assert!(times.iter().all(|t| *t >= 0.0));
        }
        assert!(Plan { deviation: 0.0, ..PLAN }.times(0).iter().all(|t| *t == 0.002));
        assert!(Plan { mean: 0.0, ..PLAN }.times(0).iter().all(|t| *t == 0.0));
    }

    #[test]
    fn tasks_of_a_block_share_one_duration() {
        let times = Plan { block: 20, tasks: 50, ..PLAN }.times(0);
        assert!(times.chunks(20).all(|block| block.iter().all(|t| *t == block[0])));
        assert!(times[19] != times[20] && times[39] != times[40]);
        assert_eq!(times.len(), 50);
    }

    #[test]
    fn iterations_are_distinct_and_reproducible() {
        assert_eq!(PLAN.times(1), PLAN.times(1));
        assert_ne!(PLAN.times(1), PLAN.times(2));
        assert_ne!(PLAN.times(1), Plan { seed: 8, ..PLAN }.times(1));
    }

    #[test]
    fn unusable_plans_are_refused() {
        assert_eq!(PLAN.check(), Ok(()));
        assert!(Plan { mean: f64::NAN, ..PLAN }.check().unwrap_err().contains("expected a time"));
        assert!(Plan { deviation: -0.1, ..PLAN }.check().unwrap_err().contains("expected 0 to 1000"));
        assert!(Plan { task_bytes: 1 << 20, ..PLAN }.check().unwrap_err().contains("expected at most"));
    }
}

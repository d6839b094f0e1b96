//! What the tasks are like.

use armature_apps::random::Random;
use rand::SeedableRng;
use rand::rngs::StdRng;
use rand_distr::{Distribution, Gamma};

/// Tasks to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Plan {
    /// Tasks of an iteration.
    pub tasks: u64,
    /// Iterations; the tasks of each depend on the results of the last one.
    pub iterations: usize,
    /// Mean time of a task, in seconds.
    pub mean: f64,
    /// Standard deviation of the time of a task, as a part of the mean.
    pub deviation: f64,
    /// Neighbouring tasks that take the same time; 1 makes all independent.
    pub block: u64,
    /// Bytes that a task takes to its worker.
    pub task_bytes: usize,
    /// Bytes that its result takes back.
    pub result_bytes: usize,
    /// The same seed makes the same tasks.
    pub seed: u64,
}

/// Most bytes of an iteration, which rank 0 holds at once.
const MOST_BYTES: u64 = 4 << 30;

impl Plan {
    /// Refuses plans that cannot be carried out.
    ///
    /// # Errors
    /// A number out of its range, or more bytes than rank 0 should hold.
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
        if bytes > MOST_BYTES {
            return Err(format!(
                "{} tasks of {} and {} bytes are {bytes} bytes an iteration: expected at most {MOST_BYTES}",
                self.tasks, self.task_bytes, self.result_bytes
            ));
        }
        Ok(())
    }

    /// The times of all tasks of an iteration, in seconds: gamma distributed, each drawn for a block of tasks.
    pub fn times(&self, iteration: usize) -> Vec<f64> {
        let Plan { mean, deviation, .. } = *self;
        let mut random = StdRng::seed_from_u64(Random::stream(self.seed, iteration as u64).next_u64());
        let square = deviation * deviation;
        // Shape and scale of this mean and deviation; there is none without a deviation.
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
    fn times_have_the_moments_that_were_asked_for() {
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
    fn blocks_share_a_time() {
        let times = Plan { block: 20, tasks: 50, ..PLAN }.times(0);
        assert!(times.chunks(20).all(|block| block.iter().all(|t| *t == block[0])));
        assert!(times[19] != times[20] && times[39] != times[40]);
        assert_eq!(times.len(), 50);
    }

    #[test]
    fn iterations_differ_and_repeat() {
        assert_eq!(PLAN.times(1), PLAN.times(1));
        assert_ne!(PLAN.times(1), PLAN.times(2));
        assert_ne!(PLAN.times(1), Plan { seed: 8, ..PLAN }.times(1));
    }

    #[test]
    fn what_cannot_be_done_is_refused() {
        assert_eq!(PLAN.check(), Ok(()));
        assert!(Plan { mean: f64::NAN, ..PLAN }.check().unwrap_err().contains("expected a time"));
        assert!(Plan { deviation: -0.1, ..PLAN }.check().unwrap_err().contains("expected 0 to 1000"));
        assert!(Plan { task_bytes: 1 << 20, ..PLAN }.check().unwrap_err().contains("expected at most"));
    }
}

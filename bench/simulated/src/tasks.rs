//! Task times of the farm experiments: gamma-distributed, independent or equal within blocks of adjacent tasks.

use rand::{SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Gamma};

use crate::RunResult;

/// Distribution of the task times of an iteration.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TaskShape {
    /// Number of tasks in an iteration.
    pub tasks: usize,
    /// Mean time of a task in seconds.
    pub mean: f64,
    /// Standard deviation of the task times, relative to their mean.
    pub spread: f64,
    /// Number of consecutive tasks that share one duration; 1 for independent tasks.
    pub block: usize,
}

impl TaskShape {
    /// Returns an endless iterator that draws the task times of one iteration after another with this seed.
    pub fn iterations(self, seed: u64) -> RunResult<impl Iterator<Item = Vec<f64>>> {
        let mut random = StdRng::seed_from_u64(seed);
        let gamma = if self.spread > 0.0 {
            let shape = 1.0 / (self.spread * self.spread);
            Some(Gamma::new(shape, self.mean / shape)?)
        } else {
            None
        };
        Ok(std::iter::repeat_with(move || {
            let mut times = Vec::with_capacity(self.tasks);
            while times.len() < self.tasks {
                let time = gamma.map_or(self.mean, |gamma| gamma.sample(&mut random));
                let end = self.tasks.min(times.len() + self.block.max(1));
                times.resize(end, time);
            }
            times
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use armature_planner::estimate::Running;

    #[test]
    fn simulated_task_times_have_the_requested_distribution() {
        let shape = TaskShape { tasks: 10_000, mean: 6e-3, spread: 0.8, block: 20 };
        let mut running = Running::new();
        for times in shape.iterations(1).unwrap().take(20) {
            assert!(times.chunks(20).all(|block| block.iter().all(|&time| time == block[0])));
            times.iter().for_each(|&time| running.add(time));
        }
        assert!((running.mean() / 6e-3 - 1.0).abs() < 0.03, "{running:?}");
        assert!((running.deviation() / 4.8e-3 - 1.0).abs() < 0.05, "{running:?}");
        let equal = TaskShape { spread: 0.0, ..shape }.iterations(1).unwrap().next().unwrap();
        assert!(equal.iter().all(|&time| time == 6e-3));
    }
}

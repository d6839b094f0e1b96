//! Random samples of task times with the measured distribution.

use crate::random::Random;

/// Maximum number of stretches (consecutive tasks that get one random time together). With more stretches, drawing
/// would take longer than the simulation that uses the times; with fewer, the last chunks of an iteration would be
/// equal.
const STRETCHES: u64 = 2048;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Distribution {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Number of adjacent tasks that are assumed to have equal times.
    pub(super) block: f64,
}

/// Random times of consecutive tasks. All chunk policies are compared on the same samples.
#[derive(Clone, Debug)]
pub(super) struct Sample {
    /// Number of tasks in a stretch (consecutive tasks for which one time is drawn).
    grain: f64,
    /// For each stretch (consecutive tasks with one random time), the total time of all stretches before it.
    before: Vec<f64>,
}

impl Sample {
    pub(super) fn draw(distribution: &Distribution, tasks: u64, seed: u64) -> Self {
        let Distribution { mean, deviation, block } = *distribution;
        let grain = tasks.div_ceil(STRETCHES).max(1) as f64;
        let block = block.max(1.0);
        // `spread` is the standard deviation of the total time of a stretch of `grain` tasks, relative to that of one
        // task; `span` is the number of adjacent stretches with equal times. A stretch of g tasks within a block of B
        // equal tasks has g times the deviation of one task; a stretch that is longer than a block has g B − (B² −
        // 1)/3 times the variance of one task.
        let (spread, span) = if block <= grain {
            (((grain * block - (block * block - 1.0) / 3.0).max(grain)).sqrt(), 1.0)
        } else {
            (grain, block / grain)
        };
        let (mean, deviation) = (grain * mean, spread * deviation);
        let mut random = Random::new(seed);
        let count = (tasks as f64 / grain).ceil() as usize;
        let mut before = Vec::with_capacity(count + 1);
        let (mut sum, mut value) = (0.0, 0.0);
        // The first block of equal tasks begins at a random distance before the sample of task times.
        let mut ends = random.uniform() * span;
        before.push(sum);
        for i in 0..count {
            if i == 0 || i as f64 >= ends {
                value = random.time(mean, deviation);
                if i > 0 {
                    ends += span;
                }
            }
            sum += value;
            before.push(sum);
        }
        Sample { grain, before }
    }

    pub(super) fn until(&self, tasks: u64) -> f64 {
        let place = tasks as f64 / self.grain;
        let whole = (place as usize).min(self.before.len() - 1);
        let next = (whole + 1).min(self.before.len() - 1);
        self.before[whole] + (place - whole as f64) * (self.before[next] - self.before[whole])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::estimate::Running;

    fn seen(distribution: &Distribution, tasks: u64, size: u64) -> Running {
        let mut running = Running::new();
        for seed in 0..200 {
            let sample = Sample::draw(distribution, tasks, seed);
            for first in (0..tasks - size).step_by(tasks as usize / 10) {
                running.add(sample.until(first + size) - sample.until(first));
            }
        }
        running
    }

    #[test]
    fn sample_keeps_mean_and_deviation_for_any_grain() {
        for (tasks, block, ratio) in [
            (2000, 1.0, 0.3),
            (2000, 20.0, 0.8),
            (100_000, 1.0, 0.8),
            (100_000, 500.0, 0.8),
            (2000, 1.0, 1.5),
        ] {
            let distribution = Distribution { mean: 2.0, deviation: 2.0 * ratio, block };
            let size = tasks / 20;
            let running = seen(&distribution, tasks, size);
            let k = size as f64;
            assert!((running.mean() / (2.0 * k) - 1.0).abs() < 0.05, "{distribution:?}: {running:?}");
            let expected = 2.0 * ratio * (k * block - (block * block - 1.0) / 3.0).sqrt();
            let factor = running.deviation() / expected;
            assert!((0.8..1.25).contains(&factor), "{distribution:?}: {factor}");
        }
    }

    #[test]
    fn sample_of_equal_tasks_is_constant() {
        let sample = Sample::draw(&Distribution { mean: 3.0, deviation: 0.0, block: 1.0 }, 10, 1);
        assert_eq!((sample.until(0), sample.until(4), sample.until(10)), (0.0, 12.0, 30.0));
    }
}

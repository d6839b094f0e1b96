//! Task times like those that were measured.

use crate::random::Random;

/// At most so many stretches of tasks are drawn.
const MOST_GRAINS: u64 = 2048;

/// What task times are drawn from.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Likeness {
    pub(super) mean: f64,
    pub(super) deviation: f64,
    /// Neighbouring tasks that share one duration.
    pub(super) block: f64,
}

/// A level that wanders along the tasks: a random walk of its logarithm.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Walk {
    /// The level before the first task, by that of the mean: what is expected, and its variance.
    pub(super) level: f64,
    pub(super) variance: f64,
    /// Variance that each task adds.
    pub(super) volatility: f64,
    /// It stays between these.
    pub(super) low: f64,
    pub(super) high: f64,
}

/// Times of a row of tasks, drawn once, so that all candidates are given the same.
#[derive(Clone, Debug)]
pub(super) struct Synthetic {
    /// Tasks in a stretch.
    grain: f64,
    /// Time of all stretches before.
    before: Vec<f64>,
}

impl Synthetic {
    /// `tasks` tasks; the same `seed` draws the same.
    pub(super) fn draw(likeness: &Likeness, walk: Option<&Walk>, tasks: u64, seed: u64) -> Self {
        let Likeness { mean, deviation, block } = *likeness;
        let grain = tasks.div_ceil(MOST_GRAINS).max(1) as f64;
        let block = block.max(1.0);
        // A stretch within blocks has the deviation of one task, a longer one that of g B − (B² − 1)/3 tasks; blocks
        // span that many stretches.
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
        // The first block has begun before.
        let mut ends = random.uniform() * span;
        before.push(sum);
        let mut wander = Random::new(!seed);
        let mut level = walk.map_or(0.0, |walk| walk.level + walk.variance.sqrt() * wander.normal());
        for i in 0..count {
            if i == 0 || i as f64 >= ends {
                value = random.time(mean, deviation);
                if i > 0 {
                    ends += span;
                }
            }
            sum += match walk {
                Some(walk) => {
                    level += (grain * walk.volatility).sqrt() * wander.normal();
                    level = walk.reflect(level);
                    value * level.exp()
                }
                None => value,
            };
            before.push(sum);
        }
        Synthetic { grain, before }
    }

    /// Time of the first `tasks` tasks.
    pub(super) fn until(&self, tasks: u64) -> f64 {
        let place = tasks as f64 / self.grain;
        let whole = (place as usize).min(self.before.len() - 1);
        let next = (whole + 1).min(self.before.len() - 1);
        self.before[whole] + (place - whole as f64) * (self.before[next] - self.before[whole])
    }
}

impl Walk {
    /// What would go too far turns back.
    fn reflect(&self, level: f64) -> f64 {
        let turned = if level > self.high {
            2.0 * self.high - level
        } else if level < self.low {
            2.0 * self.low - level
        } else {
            level
        };
        turned.clamp(self.low, self.high)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rate::Running;

    /// Mean and deviation of `size` tasks in a row, over many draws.
    fn seen(likeness: &Likeness, tasks: u64, size: u64) -> Running {
        let mut running = Running::new();
        for seed in 0..200 {
            let row = Synthetic::draw(likeness, None, tasks, seed);
            for first in (0..tasks - size).step_by(tasks as usize / 10) {
                running.add(row.until(first + size) - row.until(first));
            }
        }
        running
    }

    #[test]
    fn mean_and_deviation_are_kept_whatever_the_grain() {
        for (tasks, block, ratio) in [
            (2000, 1.0, 0.3),
            (2000, 20.0, 0.8),
            (100_000, 1.0, 0.8),
            (100_000, 500.0, 0.8),
            (2000, 1.0, 1.5),
        ] {
            let likeness = Likeness { mean: 2.0, deviation: 2.0 * ratio, block };
            let size = tasks / 20;
            let running = seen(&likeness, tasks, size);
            let k = size as f64;
            assert!((running.mean() / (2.0 * k) - 1.0).abs() < 0.05, "{likeness:?}: {running:?}");
            let expected = 2.0 * ratio * (k * block - (block * block - 1.0) / 3.0).sqrt();
            let factor = running.deviation() / expected;
            assert!((0.8..1.25).contains(&factor), "{likeness:?}: {factor}");
        }
    }

    #[test]
    fn equal_tasks_are_equal() {
        let row = Synthetic::draw(&Likeness { mean: 3.0, deviation: 0.0, block: 1.0 }, None, 10, 1);
        assert_eq!((row.until(0), row.until(4), row.until(10)), (0.0, 12.0, 30.0));
    }
}

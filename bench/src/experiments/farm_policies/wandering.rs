//! Comparison of the automatic chunking policy with the best fixed policy on tasks whose times vary with their index, such as the rows of a picture.
//! The first measurements then say little about later tasks.

use std::f64::consts::TAU;

use armature_planner::farm::{Chunking, MessageCosts, Published};
use armature_planner::simulate::farm::Tasks;
use rand::{Rng, SeedableRng, rngs::StdRng};
use rand_distr::{Distribution, Gamma};

use super::{MARK, Setting, best};
use crate::farm::tasks::TaskShape;
use crate::stats::{mean, median};
use crate::table::digits;
use crate::verdict::Interval;
use crate::{Report, RunResult, Table, Target, TargetedValue};

const SEED: u64 = 911_382;
const SETTINGS: usize = 140;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Trend {
    Rising,
    Falling,
    Hump,
    Step,
    Wave,
    /// Computing times of the rows of a picture of the Mandelbrot set: of the whole set (`Whole`), or of a part of its edge (`Edge`).
    Whole,
    Edge,
}

const TRENDS: [Trend; 7] =
    [Trend::Rising, Trend::Falling, Trend::Hump, Trend::Step, Trend::Wave, Trend::Whole, Trend::Edge];

impl Trend {
    /// Returns the times of `count` tasks before random deviations are added, in arbitrary units. They follow the number of iteration steps in the
    /// rows of a picture, or else lie between 1 and `height`.
    fn levels(self, count: usize, height: f64, place: f64, width: f64) -> Vec<f64> {
        let along = |level: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..count).map(|i| 1.0 + (height - 1.0) * level(i as f64 / count as f64)).collect()
        };
        match self {
            Trend::Rising => along(&|x| x),
            Trend::Falling => along(&|x| 1.0 - x),
            Trend::Hump => along(&|x| (-((x - place) / width).powi(2)).exp()),
            Trend::Step => along(&|x| f64::from(x >= place)),
            Trend::Wave => along(&|x| 0.5 + 0.5 * (TAU * (x / (2.0 * width) + place)).sin()),
            Trend::Whole => picture(count, (-0.6, 0.0), 3.2),
            Trend::Edge => picture(count, (-0.75 + 0.3 * place, 0.01 * height), 0.5),
        }
    }
}

/// Returns, for each row of a picture of the Mandelbrot set around `center`, the total number of iteration steps until its points escape.
fn picture(rows: usize, center: (f64, f64), width: f64) -> Vec<f64> {
    const COLUMNS: usize = 160;
    const LIMIT: u32 = 400;
    let steps = |re: f64, im: f64| {
        let (mut a, mut b, mut steps) = (0.0, 0.0, 1);
        while steps < LIMIT && a * a + b * b < 4.0 {
            (a, b) = (a * a - b * b + re, 2.0 * a * b + im);
            steps += 1;
        }
        f64::from(steps)
    };
    let row = |y: usize| {
        let im = center.1 + 0.75 * width * (y as f64 / rows as f64 - 0.5);
        (0..COLUMNS).map(|x| steps(center.0 + width * (x as f64 / COLUMNS as f64 - 0.5), im)).sum()
    };
    (0..rows).map(row).collect()
}

/// Runs one iteration of several random farms for each trend of the task times. Returns the efficiencies of the automatic policy relative to the best
/// fixed policy.
pub(super) fn compare(report: &mut Report, smoke: bool) -> RunResult<Vec<f64>> {
    let mut table = Table::new(&[
        "course",
        "workers",
        "tasks",
        "mean [ms]",
        "start-up [ms]",
        "best fixed",
        "best [%]",
        "worst [%]",
        "auto [%]",
        "auto / best",
        "last choice",
    ]);
    let mut random = StdRng::seed_from_u64(SEED);
    let mut ratios = Vec::new();
    for trend in TRENDS.into_iter().cycle().take(if smoke { TRENDS.len() } else { SETTINGS }) {
        let (setting, times) = draw(trend, &mut random)?;
        let iterations = [Tasks::new(&times)];
        let mut fixed = setting.fixed(&iterations);
        let single = setting.run(Chunking::Policy(Published::SelfScheduling), &iterations).efficiency();
        let mut best = best(&fixed);
        if single > best.1 {
            best = (Chunking::Policy(Published::SelfScheduling), single);
        }
        fixed.push(single);
        let auto = setting.run(Chunking::Auto, &iterations);
        let ratio = auto.efficiency() / best.1;
        table.row([
            format!("{trend:?}").to_lowercase().into(),
            setting.workers.into(),
            times.len().into(),
            digits(1e3 * setting.shape.mean, 3),
            digits(1e3 * setting.messages.start_up.small, 4),
            best.0.to_string().into(),
            digits(best.1, 4),
            digits(fixed.iter().copied().fold(f64::INFINITY, f64::min), 4),
            digits(auto.efficiency(), 4),
            digits(ratio, 4),
            auto.choice.unwrap_or_default().into(),
        ]);
        ratios.push(ratio);
    }
    report.table("wandering", &table)?;
    let worst = ratios.iter().copied().fold(f64::INFINITY, f64::min);
    let reached = ratios.iter().filter(|&&ratio| ratio >= MARK).count();
    report.note(format!(
        "wandering: {worst:.4} of the best fixed policy at worst, median {:.4}; {reached} of {} at {MARK} or more",
        median(&ratios),
        ratios.len()
    ));
    let mean = Interval::exact(mean(&ratios));
    report.mark(TargetedValue::new(
        "wandering, one iteration, mean",
        mean,
        "of the best",
        Target::AtLeast(MARK),
    ));
    Ok(ratios)
}

/// Draws a farm on a fast network and its tasks. The task times deviate at random by 3 % to 30 % from those of the trend.
fn draw(trend: Trend, random: &mut StdRng) -> RunResult<(Setting, Vec<f64>)> {
    let mut log = |low: f64, high: f64| low * (high / low).powf(random.random::<f64>());
    let (workers, tasks) = (log(2.0, 40.0).round() as usize, log(200.0, 2000.0).round() as usize);
    let shape = TaskShape { tasks, mean: log(1e-3, 5e-2), spread: log(0.03, 0.3), block: 1 };
    let messages = MessageCosts::new(log(2e-6, 1e-4), log(1e-10, 1e-8));
    let setting = Setting { workers, messages, volume: log(10.0, 1000.0) * tasks as f64, shape };
    let levels = trend.levels(tasks, log(2.0, 50.0), random.random(), random.random_range(0.05..0.3));
    let (unit, variance) = (shape.mean / mean(&levels), shape.spread * shape.spread);
    let scatter = Gamma::new(1.0 / variance, variance)?;
    Ok((setting, levels.iter().map(|level| unit * level * scatter.sample(random)).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn task_times_follow_the_requested_trend() {
        for trend in TRENDS {
            let (setting, times) = draw(trend, &mut StdRng::seed_from_u64(5)).unwrap();
            assert!((mean(&times) / setting.shape.mean - 1.0).abs() < 0.1, "{trend:?}");
            let (first, last) = (mean(&times[..times.len() / 8]), mean(&times[times.len() * 7 / 8..]));
            match trend {
                Trend::Rising => assert!(last > 1.3 * first, "{first} {last}"),
                Trend::Falling => assert!(first > 1.3 * last, "{first} {last}"),
                Trend::Whole => {
                    let middle = mean(&times[times.len() * 7 / 16..times.len() * 9 / 16]);
                    assert!(middle > 5.0 * first && middle > 5.0 * last, "{first} {middle} {last}");
                }
                _ => {}
            }
        }
    }
}

//! How the level of task times goes along the tasks.
//!
//! Neighbours may be alike because blocks of tasks share one duration, which tells nothing of the next block; or because
//! the level itself wanders: rows of a picture, a front that moves through a mesh. Then what is still to come may be far
//! from what was seen so far, and coarse chunks are a risk. Which of the two it is, is told by finished chunks, in the
//! order of their tasks: the logarithms of their mean times are either a constant with the noise of blocks, in which chunks of
//! one block are alike, or a random walk with noise, of one of some volatilities. Each of the latter hypotheses has the
//! likelihood that Kalman's filter gives for it (the local level model; Harvey, Forecasting, Structural Time Series Models and the Kalman Filter, 1989, ch. 4).

use std::ops::Range;

use super::super::statistics::{TaskStatistics, chunk_covariance, chunk_variance};
use super::synthetic::{Likeness, Walk};

/// Deviations of the walk, in the logarithm, over all tasks of an iteration; the first is that of a constant level.
const WALKS: [f64; 6] = [0.0, 0.25, 0.5, 1.0, 2.0, 4.0];
/// Neighbouring tasks that are alike beside a walk.
const BLOCKS: [f64; 4] = [1.0, 4.0, 16.0, 64.0];
/// Blocks beside a constant level may be as long as is measured, or shorter by these parts: where chunks lie within blocks, what is
/// measured is only a bound.
const PARTS: [f64; 4] = [1.0, 0.5, 0.25, 0.125];
/// An iteration has so many blocks at least: if there are fewer, the level wanders.
const LEAST_BLOCKS: f64 = 16.0;
/// Weight of a constant level before anything is known.
const CONSTANT: f64 = 0.5;
/// A walk stays within the levels that were seen, and this much beyond (in the logarithm).
const BEYOND: f64 = 1.0;
/// What earlier iterations tell counts so much in the next one.
const MEMORY: f64 = 0.75;
/// Stretches that are kept.
const MOST_CELLS: usize = 64;
/// How far apart, by the deviation of the walk over what is left, a chunk's level and that of the others are taken to be.
const RISK: f64 = 0.5;
/// How far the times of chunks scatter before anything is known, as the inverse of the exponent of Weibull's
/// distribution: that of Rayleigh's. It weighs as much as so many chunks, and is never exceeded.
const SCATTER: f64 = 0.5;
const SCATTER_WEIGHT: f64 = 4.0;
const LEAST_SCATTER: f64 = 0.1;
/// Least variance of a logarithm of a measured time.
const LEAST: f64 = 1e-6;

/// A stretch of finished tasks.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Cell {
    /// The first task's number in the iteration, and the end.
    first: u64,
    end: u64,
    tasks: u64,
    sum: f64,
}

/// What finished chunks of this iteration tell, and what earlier iterations told.
#[derive(Debug, Default)]
pub(super) struct Course {
    /// In the order of their tasks.
    cells: Vec<Cell>,
    /// Logarithms of the likelihoods of the hypotheses, by earlier iterations.
    before: Vec<f64>,
}

/// One of the ways in which the level may go.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Hypothesis {
    walk: f64,
    block: f64,
}

fn hypotheses() -> impl Iterator<Item = Hypothesis> {
    let constant = Hypothesis { walk: 0.0, block: 0.0 };
    let walks = WALKS.into_iter().skip(1);
    std::iter::once(constant).chain(walks.flat_map(|walk| BLOCKS.map(|block| Hypothesis { walk, block })))
}

fn number() -> usize {
    1 + (WALKS.len() - 1) * BLOCKS.len()
}

impl Course {
    /// `tasks` tasks from number `first` on took `sum` seconds.
    pub(super) fn add(&mut self, first: u64, tasks: u64, sum: f64) {
        if tasks == 0 || sum.is_nan() || sum <= 0.0 {
            return;
        }
        let place = self.cells.partition_point(|cell| cell.first < first);
        self.cells.insert(place, Cell { first, end: first.saturating_add(tasks), tasks, sum });
        if self.cells.len() > 2 * MOST_CELLS {
            let end = self.cells.iter().map(|cell| cell.end).max().unwrap_or(0);
            let grain = end.div_ceil(MOST_CELLS as u64);
            let mut merged: Vec<Cell> = Vec::with_capacity(MOST_CELLS);
            for cell in self.cells.drain(..) {
                match merged.last_mut() {
                    Some(last) if cell.end.saturating_sub(last.first) <= grain => {
                        last.end = last.end.max(cell.end);
                        last.tasks = last.tasks.saturating_add(cell.tasks);
                        last.sum += cell.sum;
                    }
                    _ => merged.push(cell),
                }
            }
            self.cells = merged;
        }
    }

    /// How far the times of chunks scatter, as the inverse of the exponent s of Weibull's distribution: by those that have
    /// come back, which are the short ones. At the lower end times go with the 1/s-th power of their rank, so that Hill's
    /// estimator for tails gives 1/s (Hill, A simple general approach to inference about the tail of a distribution, Annals
    /// of Statistics 3, 1975).
    pub(super) fn scatter(&self) -> f64 {
        let times = self.cells.iter().map(|cell| cell.sum / cell.tasks as f64);
        let longest = times.clone().fold(0.0, f64::max);
        let sum: f64 = times.map(|time| (longest / time).ln()).sum();
        let others = self.cells.len().max(1) as f64 - 1.0;
        ((sum + SCATTER_WEIGHT * SCATTER) / (others + SCATTER_WEIGHT)).clamp(LEAST_SCATTER, SCATTER)
    }

    /// Σ k (t/m)^s over the chunks of this iteration that have come back, of k tasks that took t each, by the mean m; None
    /// if there is none.
    pub(super) fn powers(&self, mean: f64, exponent: f64) -> Option<f64> {
        let power = |cell: &Cell| {
            let tasks = cell.tasks as f64;
            tasks * (cell.sum / tasks / mean).powf(exponent)
        };
        (!self.cells.is_empty()).then(|| self.cells.iter().map(power).sum())
    }

    /// A new iteration begins; the last one ended with these `outcomes`.
    pub(super) fn begin(&mut self, outcomes: &Outcomes) {
        self.before = outcomes.0.iter().map(|outcome| MEMORY * outcome.likelihood).collect();
        self.cells.clear();
    }

    /// Every hypothesis with its likelihood, and what it says of the level now; an iteration has `total` tasks.
    pub(super) fn outcomes(&self, statistics: &TaskStatistics, likeness: &Likeness, total: u64) -> Outcomes {
        let all = statistics.all();
        let mean = all.mean();
        let within = statistics.within() / (mean * mean);
        let spread = all.variance() / (mean * mean);
        let levels: Vec<f64> =
            self.cells.iter().map(|cell| (cell.sum / (cell.tasks as f64 * mean)).ln()).collect();
        let low = levels.iter().copied().fold(0.0, f64::min) - BEYOND;
        let high = levels.iter().copied().fold(0.0, f64::max) + BEYOND;
        let before = |i: usize| self.before.get(i).copied().unwrap_or(0.0);
        let outcomes = hypotheses().enumerate().map(|(i, hypothesis)| {
            let Hypothesis { walk, block } = hypothesis;
            let volatility = walk * walk / total.max(1) as f64;
            if walk == 0.0 {
                let longest = likeness.block.min(total as f64 / LEAST_BLOCKS);
                let of_blocks = PARTS.map(|part| self.constant(&levels, spread, (part * longest).max(1.0)));
                let likelihood = log_of_mean(&of_blocks) + before(i);
                return Outcome { likelihood, deviation: walk, likeness: *likeness, walk: None };
            }
            let noise = |tasks: u64| {
                let k = tasks as f64;
                (within * chunk_variance(block, k) / k).max(LEAST)
            };
            // The level is not known before the first stretch.
            let (mut level, mut variance, mut likelihood) = (0.0, 0.0, 0.0);
            let mut middle = 0.0;
            for (j, (cell, &seen)) in self.cells.iter().zip(&levels).enumerate() {
                let here = 0.5 * (cell.first as f64 + cell.end as f64);
                let noise = noise(cell.tasks);
                if j == 0 {
                    (level, variance) = (seen, noise);
                } else {
                    variance += volatility * (here - middle).max(0.0);
                    let expected = variance + noise;
                    let off = seen - level;
                    likelihood -= 0.5 * (expected.ln() + off * off / expected);
                    let gain = variance / expected;
                    level += gain * off;
                    variance *= 1.0 - gain;
                }
                middle = here;
            }
            // The tasks ahead come after the last stretch.
            let end = self.cells.last().map_or(0.0, |cell| cell.end as f64);
            variance += volatility * (end - middle).max(0.0);
            let likelihood = likelihood + before(i);
            let deviation = walk;
            let walk = Some(Walk { level, variance, volatility, low, high });
            let likeness = Likeness { block, deviation: within.sqrt() * likeness.mean, ..*likeness };
            Outcome { likelihood, deviation, likeness, walk }
        });
        Outcomes(outcomes.collect())
    }

    /// Logarithm of the likelihood of these levels of the stretches if nothing but blocks of like tasks makes them differ, by
    /// `spread` squared. Each stretch is held against the mean of those before and against the last of them: what is of the
    /// same block is no surprise.
    fn constant(&self, levels: &[f64], spread: f64, block: f64) -> f64 {
        let covariance = |a: &Range<u64>, b: &Range<u64>| {
            spread * chunk_covariance(block, a, b) / ((a.end - a.start) as f64 * (b.end - b.start) as f64)
        };
        let Some(first) = self.cells.first() else { return 0.0 };
        let (mut sum, mut seen) = (0.0, 0.0);
        let pairs = self.cells.windows(2).zip(levels.windows(2));
        let likelihoods = pairs.map(|(cells, levels)| {
            (sum, seen) = (sum + levels[0], seen + 1.0);
            let mean = sum / seen;
            let (last, next) = (cells[0].first..cells[0].end, cells[1].first..cells[1].end);
            let before = first.first..last.end.max(first.first + 1);
            let shared = covariance(&last, &next);
            let gain = shared / covariance(&last, &last).max(LEAST);
            // The mean is known as well as it can be from all of these tasks.
            let unsure = (1.0 - gain).powi(2) * covariance(&before, &before);
            let expected = (covariance(&next, &next) - gain * shared + unsure).max(LEAST);
            let off = levels[1] - mean - gain * (levels[0] - mean);
            -0.5 * (expected.ln() + off * off / expected)
        });
        likelihoods.sum()
    }
}

/// A hypothesis, and what comes of it.
#[derive(Clone, Copy, Debug)]
struct Outcome {
    /// Logarithm of its likelihood.
    likelihood: f64,
    /// Deviation of the walk over a whole iteration.
    deviation: f64,
    likeness: Likeness,
    walk: Option<Walk>,
}

/// The logarithm of the mean of likelihoods that are given by their logarithms.
fn log_of_mean(logs: &[f64]) -> f64 {
    let most = logs.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + (logs.iter().map(|log| (log - most).exp()).sum::<f64>() / logs.len() as f64).ln()
}

fn prior(outcome: &Outcome) -> f64 {
    if outcome.walk.is_some() { (1.0 - CONSTANT) / (number() - 1) as f64 } else { CONSTANT }
}

/// All hypotheses.
#[derive(Clone, Debug)]
pub(super) struct Outcomes(Vec<Outcome>);

impl Outcomes {
    /// How many times as long as the mean a stretch may take, where a part `ahead` of all tasks is left: the mean over
    /// the hypotheses.
    pub(super) fn risk(&self, ahead: f64) -> f64 {
        let most = self.0.iter().map(|outcome| outcome.likelihood).fold(f64::NEG_INFINITY, f64::max);
        let (mut sum, mut weights) = (0.0, 0.0);
        for outcome in &self.0 {
            let weight = prior(outcome) * (outcome.likelihood - most).exp();
            weights += weight;
            sum += weight * (RISK * outcome.deviation * ahead.sqrt()).exp();
        }
        sum / weights
    }

    /// What a row is like that is drawn by the hypothesis at `place` from 0 to 1, each having a part of it by its weight.
    pub(super) fn at(&self, place: f64, constant: &Likeness) -> (Likeness, Option<Walk>) {
        let most = self.0.iter().map(|outcome| outcome.likelihood).fold(f64::NEG_INFINITY, f64::max);
        let weight = |outcome: &Outcome| prior(outcome) * (outcome.likelihood - most).exp();
        let sum: f64 = self.0.iter().map(weight).sum();
        let mut left = place * sum;
        for outcome in &self.0 {
            left -= weight(outcome);
            if left < 0.0 {
                return if outcome.walk.is_some() {
                    (outcome.likeness, outcome.walk)
                } else {
                    (*constant, None)
                };
            }
        }
        (*constant, None)
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::knowledge::ChunkDone;
    use super::*;
    use crate::random::Random;

    /// Chunks of 10 tasks, of which 400 are one iteration, and what comes of them.
    fn outcomes(times: impl Fn(u64) -> f64, chunks: u64) -> (Course, Outcomes, Likeness) {
        outcomes_of(times, chunks, 400)
    }

    fn outcomes_of(times: impl Fn(u64) -> f64, chunks: u64, total: u64) -> (Course, Outcomes, Likeness) {
        let (mut course, mut statistics) = (Course::default(), TaskStatistics::default());
        // They do not come back in order.
        for chunk in (0..chunks).step_by(2).chain((1..chunks).step_by(2)) {
            let times: Vec<f64> = (10 * chunk..10 * chunk + 10).map(&times).collect();
            let (sum, squares) = (times.iter().sum(), times.iter().map(|time| time * time).sum());
            course.add(10 * chunk, 10, sum);
            statistics.add(&ChunkDone { worker: 0, tasks: 10, sum, squares, elapsed: sum });
        }
        let all = statistics.all();
        let likeness = Likeness { mean: all.mean(), deviation: all.deviation(), block: statistics.block() };
        let outcomes = course.outcomes(&statistics, &likeness, total);
        (course, outcomes, likeness)
    }

    /// Between 0.5 and 1.5, without any order.
    fn scattered(task: u64) -> f64 {
        0.5 + (task as f64 * 0.618_034).fract()
    }

    #[test]
    fn what_scatters_is_no_risk_and_what_wanders_is() {
        let risk = |times: fn(u64) -> f64, chunks| outcomes(times, chunks).1.risk(0.9);
        let unknown = risk(scattered, 1);
        assert!(unknown > 1.3, "nothing is known: {unknown}");
        let known = risk(scattered, 30);
        assert!(known < 1.1, "{known}");
        let rising = |task: u64| scattered(task) * (0.01 * task as f64).exp();
        let (wandering, scattering) = (risk(rising, 8), risk(scattered, 8));
        assert!(wandering > scattering + 0.1 && wandering > 1.4, "{wandering} {scattering}");
    }

    #[test]
    fn chunks_of_one_block_are_alike_and_no_risk() {
        // Blocks of 25 tasks, chunks of 10: where the level seems to wander there is but a new block now and then.
        let wanders = |&seed: &u64| {
            let mut random = Random::new(seed);
            let blocks: Vec<f64> = (0..32).map(|_| random.time(1.0, 0.4)).collect();
            outcomes_of(|task| blocks[task as usize / 25], 80, 800).1.risk(0.9) > 1.2
        };
        let wandering = (1..=40).filter(wanders).count();
        assert!(wandering <= 4, "{wandering} of 40");
    }

    #[test]
    fn rows_go_on_where_the_last_chunks_were() {
        let (_, outcomes, likeness) = outcomes(|task| scattered(task) * (0.01 * task as f64).exp(), 12);
        let (_, walk) = outcomes.at(0.5, &likeness);
        let walk = walk.expect("it wanders");
        // The mean lies in the middle of 120 tasks; the last chunk is e^0.5 above.
        assert!((0.2..0.8).contains(&walk.level) && walk.variance < 0.1, "{walk:?}");
    }

    #[test]
    fn earlier_iterations_count() {
        let (mut course, last, likeness) = outcomes(scattered, 30);
        course.begin(&last);
        let mut statistics = TaskStatistics::default();
        statistics.add(&ChunkDone { worker: 0, tasks: 10, sum: 10.0, squares: 11.0, elapsed: 10.0 });
        let risk = course.outcomes(&statistics, &likeness, 400).risk(1.0);
        assert!(risk < 1.15, "{risk}");
    }

    #[test]
    fn the_first_chunks_back_tell_how_far_they_scatter() {
        let scatter = |step: f64, chunks: u64| {
            let mut course = Course::default();
            (0..chunks).for_each(|chunk| course.add(10 * chunk, 10, (step * chunk as f64).exp()));
            course.scatter()
        };
        assert_eq!([scatter(0.1, 0), scatter(0.5, 12)], [SCATTER; 2], "nothing is known, or it is no less");
        let narrow = scatter(0.01, 12);
        assert!((0.1..0.2).contains(&narrow), "{narrow}");
        assert!((0.35..SCATTER).contains(&scatter(0.01, 2)), "two say little");
    }

    #[test]
    fn stretches_are_joined_when_they_are_many() {
        let (course, ..) = outcomes(scattered, 1000);
        assert!(course.cells.len() <= 2 * MOST_CELLS, "{}", course.cells.len());
        assert_eq!(course.cells.iter().map(|cell| cell.tasks).sum::<u64>(), 10_000);
        assert!(course.cells.is_sorted_by_key(|cell| cell.first));
    }
}

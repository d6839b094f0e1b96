//! Estimates the works of stages and the speeds of ranks from the measured times of stages on ranks.

use serde::{Deserialize, Serialize};

use super::normal;
use super::value::{Estimate, Source};
use crate::error::{Error, ErrorKind, Result};
use crate::range::{self, POSITIVE};

/// Measured time of a stage on a rank.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measurement {
    /// Stage number, from 0.
    pub stage: usize,
    /// Rank number, from 0.
    pub rank: usize,
    /// Busy seconds of the rank per item of the stage. If these are only the seconds in which the rank had its core,
    /// use [`FitOptions::of_core_time`].
    pub seconds: f64,
    /// Weight of this measurement relative to the others, for example its number of samples.
    pub weight: f64,
}

/// Speeds of ranks and works of stages that were known before the measurements.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Prior {
    /// Speed of each rank, from a benchmark at start-up (probe). As long as the work of every stage is unknown, only
    /// the ratios of the speeds matter.
    pub speeds: Vec<f64>,
    /// Work of each stage per item, in units of speed × seconds, if it was declared or fitted before.
    pub works: Vec<Option<f64>>,
}

impl Prior {
    /// Creates the values that were known before the measurements: the speeds of the ranks, and no works of the `stages` stages.
    pub fn probed(speeds: &[f64], stages: usize) -> Self {
        Prior { speeds: speeds.to_vec(), works: vec![None; stages] }
    }
}

/// Weights of the values that were known before the measurements (the prior) in the fit.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct FitOptions {
    /// Weight of the speed of a rank that was known before the measurements (the prior), relative to the mean weight of a measurement. The weight
    /// should be tiny, because the prior should only decide what the measurements leave undetermined.
    pub prior: f64,
    /// Penalty for a rank that becomes faster, relative to the penalty for a rank that becomes slower. Ranks lose speed to other load more often
    /// than they gain speed.
    pub faster: f64,
    /// Penalty for a stage whose work changes, relative to the penalty for a rank that becomes slower.
    pub work: f64,
}

impl FitOptions {
    /// Returns options for measurements that count only the time in which the rank had its core, without the turns of other threads. Such times do
    /// not depend on load from other programs. If one stage takes longer, a change of the data is more likely than a change of the rank. If all
    /// stages of a rank take longer, the rank changed (for example to a lower clock rate).
    pub fn of_core_time() -> Self {
        FitOptions { work: 0.75, ..FitOptions::default() }
    }
}

impl Default for FitOptions {
    fn default() -> Self {
        FitOptions { prior: 1e-7, faster: 2.0, work: 1.5 }
    }
}

/// Fitted works of the stages and speeds of the ranks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// Work of each stage per item, in units of speed × seconds; `None` if the work was neither measured nor known.
    pub works: Vec<Option<Estimate>>,
    /// Speed of each rank, in the unit of the speeds that were known before the measurements.
    pub speeds: Vec<Estimate>,
}

impl Fit {
    /// Returns the seconds per item of `stage` on `rank`, also for a rank on which the stage has never run; `None` if the work of the stage is
    /// unknown, or the stage or the rank does not exist.
    pub fn seconds(&self, stage: usize, rank: usize) -> Option<f64> {
        let (work, speed) = (self.works.get(stage)?.as_ref()?, self.speeds.get(rank)?);
        Some(work.value / speed.value)
    }
}

/// Computes works w of the stages and speeds v of the ranks with w(stage) / v(rank) = seconds, as nearly as the measurements allow.
///
/// The equations are linear in the logarithms of the time t, the work w and the speed v: log t = log w − log v. They are solved by weighted least
/// squares (normal equations over the stages, with the ranks eliminated). One factor remains undetermined for each group of ranks that shares no
/// stage with other ranks, and the speeds of ranks without measurements remain undetermined. There the prior decides, with a weight so small that it
/// does not disturb the measurements. Deviations from the prior count by their size and not by their square (by reweighting). A rank that lost half
/// its speed is therefore identified, and its loss is not spread over the other ranks. A loss of speed counts as more likely than a gain.
///
/// In effect, ranks that share a stage are compared by their times for it, whatever the work of the stage. A rank without measurements keeps its
/// prior speed, like most of the other ranks. A rank that shares its stages with no other rank also keeps its prior speed, unless the work of its
/// stages was known before.
///
/// # Errors
/// [`ErrorKind::Options`] if a measurement names a stage or rank that the prior does not have, any number is not from 1e-60 to 1e60, or the numbers
/// are so far apart that the equations cannot be solved.
///
/// ```
/// use armature_planner::estimate::{FitOptions, Measurement, Prior, fit};
///
/// let took = |stage, rank, seconds| Measurement { stage, rank, seconds, weight: 1.0 };
/// // Stage 0 ran on ranks 0, 1 and 2; rank 1 is at half its speed. Nothing ran on rank 3, a twice as fast one.
/// let seen = [took(0, 0, 0.01), took(0, 1, 0.02), took(0, 2, 0.01), took(1, 1, 0.06)];
/// let fit = fit(&seen, &Prior::probed(&[1.0, 1.0, 1.0, 2.0], 2), &FitOptions::default())?;
/// let near = |a: f64, b: f64| (a / b - 1.0).abs() < 0.01;
/// assert!(near(fit.speeds[1].value, 0.5), "{:?}", fit);
/// assert!(near(fit.seconds(1, 0).unwrap(), 0.03));
/// assert!(near(fit.seconds(1, 3).unwrap(), 0.015));
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn fit(measurements: &[Measurement], prior: &Prior, options: &FitOptions) -> Result<Fit> {
    check(measurements, prior, options)?;
    if measurements.is_empty() {
        return Ok(from_prior(prior, Problem::new(measurements, prior), Vec::new(), Vec::new()));
    }
    let problem = Problem::new(measurements, prior);
    let mean = measurements.iter().map(|m| m.weight).sum::<f64>() / measurements.len() as f64;
    let base = options.prior * mean;
    let (ranks, stages) = (prior.speeds.len(), prior.works.len());
    let mut pull_rank = vec![base; ranks];
    let mut pull_stage: Vec<f64> =
        problem.log_works.iter().map(|work| work.map_or(0.0, |_| base * options.work)).collect();
    let (mut x, mut y) = (vec![0.0; stages], problem.log_speeds.clone());
    let mut is_solved = false;
    for _ in 0..ROUNDS {
        let Some((new_x, new_y)) = problem.solve(&pull_rank, &pull_stage) else { break };
        is_solved = true;
        let change = new_y.iter().zip(&y).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        (x, y) = (new_x, new_y);
        if change < 1e-9 {
            break;
        }
        for (r, pull) in pull_rank.iter_mut().enumerate() {
            let off = y[r] - problem.log_speeds[r];
            let side = if off > 0.0 { options.faster } else { 1.0 };
            *pull = base * side / off.abs().max(SHARP);
        }
        for (s, pull) in pull_stage.iter_mut().enumerate() {
            if let Some(before) = problem.log_works[s] {
                *pull = base * options.work / (x[s] - before).abs().max(SHARP);
            }
        }
    }
    let is_usable = |log: &f64| range::is_positive(log.exp());
    if !is_solved || !x.iter().chain(&y).all(is_usable) {
        let message = "the measurements are too far apart, in their times or weights, to tell works and speeds from them";
        return Err(Error::new(ErrorKind::Options, message));
    }
    Ok(from_prior(prior, problem, x, y))
}

/// Maximum number of times that the least squares problem of the fit is solved, each time with new weights.
const ROUNDS: usize = 60;
/// Deviation of the logarithm of a rank's speed or of a stage's work from its value before the measurements (prior).
/// Below it, a deviation counts by its square; above it, by its size.
const SHARP: f64 = 1e-3;

fn check(measurements: &[Measurement], prior: &Prior, options: &FitOptions) -> Result<()> {
    let invalid = |message: String| Err(Error::new(ErrorKind::Options, message));
    let usable = range::is_positive;
    let (ranks, stages) = (prior.speeds.len(), prior.works.len());
    for m in measurements {
        if m.stage >= stages || m.rank >= ranks {
            return invalid(format!(
                "stage {} was measured on rank {}, but there are {stages} stages and {ranks} ranks, \
                 numbered from 0",
                m.stage, m.rank
            ));
        }
        if !usable(m.seconds) || !usable(m.weight) {
            return invalid(format!(
                "stage {} on rank {} took {} s with weight {}: both must be {POSITIVE}",
                m.stage, m.rank, m.seconds, m.weight
            ));
        }
    }
    if let Some(r) = prior.speeds.iter().position(|&speed| !usable(speed)) {
        return invalid(format!("the speed of rank {r} must be {POSITIVE}, but is {}", prior.speeds[r]));
    }
    if let Some((s, work)) = prior
        .works
        .iter()
        .enumerate()
        .find_map(|(s, work)| work.filter(|&work| !usable(work)).map(|work| (s, work)))
    {
        return invalid(format!("the work of stage {s} must be {POSITIVE}, but is {work}"));
    }
    if ![options.prior, options.faster, options.work].into_iter().all(usable) {
        return invalid(format!("the weights of the prior must be {POSITIVE}, but are {options:?}"));
    }
    Ok(())
}

/// Least squares problem of the fit: logarithms of the measured times and of the values that were known before.
struct Problem {
    /// Measurements of each rank: (stage, logarithm of the seconds per item, weight).
    seen: Vec<Vec<(usize, f64, f64)>>,
    log_speeds: Vec<f64>,
    log_works: Vec<Option<f64>>,
    stage_count: Vec<u64>,
}

impl Problem {
    fn new(measurements: &[Measurement], prior: &Prior) -> Self {
        let mut seen = vec![Vec::new(); prior.speeds.len()];
        let mut stage_count = vec![0; prior.works.len()];
        for m in measurements {
            seen[m.rank].push((m.stage, m.seconds.ln(), m.weight));
            stage_count[m.stage] += 1;
        }
        Problem {
            seen,
            stage_count,
            log_speeds: prior.speeds.iter().map(|speed| speed.ln()).collect(),
            log_works: prior.works.iter().map(|work| work.map(f64::ln)).collect(),
        }
    }

    /// Minimises Σ m (x_s − y_r − l)² + Σ p_r (y_r − prior)² + Σ p_s (x_s − prior)² over the logarithms of the
    /// stages' works, x_s, and of the ranks' speeds, y_r. A measurement has the logarithm l of its seconds and the
    /// weight m; p_r and p_s are the weights of the values known before (priors). For given x, y_r = (Σ_s m (x_s − l)
    /// + p_r prior) / (Σ_s m + p_r). Substitution leaves one equation for each measured stage.
    fn solve(&self, pull_rank: &[f64], pull_stage: &[f64]) -> Option<(Vec<f64>, Vec<f64>)> {
        let stages = self.stage_count.len();
        let mut index = vec![None; stages];
        let open: Vec<usize> = (0..stages).filter(|&s| self.stage_count[s] > 0).collect();
        for (i, &s) in open.iter().enumerate() {
            index[s] = Some(i);
        }
        let n = open.len();
        let (mut a, mut b) = (vec![0.0; n * n], vec![0.0; n]);
        for (i, &s) in open.iter().enumerate() {
            a[i * n + i] += pull_stage[s];
            b[i] += pull_stage[s] * self.log_works[s].unwrap_or(0.0);
        }
        let rank_of = |r: usize| {
            let total = pull_rank[r] + self.seen[r].iter().map(|(_, _, m)| m).sum::<f64>();
            let known: f64 = pull_rank[r] * self.log_speeds[r]
                - self.seen[r].iter().map(|(_, log, m)| m * log).sum::<f64>();
            (total, known)
        };
        for (r, seen) in self.seen.iter().enumerate() {
            let (total, known) = rank_of(r);
            for &(s, log, m) in seen {
                // Every measured stage has an index in the system of equations, so no measurement is skipped.
                let Some(i) = index[s] else { continue };
                a[i * n + i] += m;
                b[i] += m * (log + known / total);
                for &(other, _, weight) in seen {
                    let Some(j) = index[other] else { continue };
                    a[i * n + j] -= m * weight / total;
                }
            }
        }
        let solution = normal::solve(a, b)?;
        let mut x: Vec<f64> = self.log_works.iter().map(|work| work.unwrap_or(0.0)).collect();
        for (&s, value) in open.iter().zip(solution) {
            x[s] = value;
        }
        let y = (0..self.seen.len())
            .map(|r| {
                let (total, known) = rank_of(r);
                (known + self.seen[r].iter().map(|&(s, _, m)| m * x[s]).sum::<f64>()) / total
            })
            .collect();
        Some((x, y))
    }

    /// Returns true if the speed of a rank is determined by more than its value before the measurements: by another
    /// rank that ran one of its stages, or by a stage whose work was known before.
    fn is_compared(&self, rank: usize) -> bool {
        self.seen[rank].iter().any(|&(stage, ..)| {
            self.log_works[stage].is_some()
                || self
                    .seen
                    .iter()
                    .enumerate()
                    .any(|(r, seen)| r != rank && seen.iter().any(|&(s, ..)| s == stage))
        })
    }
}

fn from_prior(prior: &Prior, problem: Problem, x: Vec<f64>, y: Vec<f64>) -> Fit {
    let works = prior.works.iter().enumerate().map(|(s, before)| match problem.stage_count[s] {
        0 => before.map(Estimate::declared),
        count => Some(Estimate { value: x[s].exp(), source: Source::Fit, settled: true, count }),
    });
    let speeds = prior.speeds.iter().enumerate().map(|(r, &probed)| match problem.seen[r].len() {
        0 => Estimate::probed(probed),
        count => {
            let source = if problem.is_compared(r) { Source::Fit } else { Source::Probe };
            Estimate { value: y[r].exp(), source, settled: true, count: count as u64 }
        }
    });
    Fit { works: works.collect(), speeds: speeds.collect() }
}

#[cfg(test)]
#[path = "fit_tests.rs"]
mod tests;

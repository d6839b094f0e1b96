//! Heuristic estimate of a server's rate from the numbers of items in single sampling periods.

use armature_planner::estimate::Running;
use armature_planner::range::{self, POSITIVE};
use armature_planner::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

use super::convergence::Convergence;
use super::options::RateOptions;
use super::smooth::Smooth;

/// Reading of a queue's monitor at the end of one sampling period.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// Number of items that the server moved in the period (tc in the paper of Beard and Chamberlain).
    pub items: f64,
    /// Actual length of the sampling period in seconds.
    pub period: f64,
    /// True if the server was blocked in the period (nothing to read or no space to write), or its producer had finished.
    pub blocked: bool,
}

/// Estimated rate of a server that is never blocked.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct RateEstimate {
    /// Rate in items per second.
    pub rate: f64,
    /// True if the estimate has converged.
    pub converged: bool,
    /// Number of quantiles of the smoothed item counts; the rate is the mean of these quantiles.
    pub quantiles: u64,
    /// Number of samples used since the estimator was created.
    pub samples: u64,
}

impl RateEstimate {
    /// Returns the rate in bytes per second, for items of `bytes` bytes.
    pub fn bytes_per_second(&self, bytes: f64) -> f64 {
        self.rate * bytes
    }
}

/// Estimator for the rate of a server without blocking, from a run in which the server is often blocked.
///
/// The method is that of Beard and Chamberlain, *Run Time Approximation of Non-blocking Service Rates for Streaming Systems* (2015). A queue's
/// monitor counts the items that the server moved in each sampling period T. Periods in which the server was blocked are ignored. The others are
/// still noisy: in many periods the server processed part of an item only, and some counts are outliers. The estimate is therefore not their mean but
/// close to their upper end:
///
/// 1. A sliding window of w counts is smoothed with a Gaussian of radius 2, without padding (Eq. 2).
/// 2. At each sample the quantile q = mean + 1.645 · standard deviation of the smoothed window is computed (Eq. 3).
/// 3. The rate is the mean of all q since the last estimate, once it has converged: when the standard error of that mean, filtered with a Laplacian
///    of Gaussian (Eq. 4), stays within a tolerance for some time.
///
/// [`Period`](crate::Period) finds a sampling period; [`reading_probability`](crate::reading_probability) and
/// [`writing_probability`](crate::writing_probability) compute the probability of a period without blocking (Eq. 1). The framework measures
/// whole batches and knows when they were blocked, so its own estimate is the robust mean of
/// [`ServiceTime`](armature_planner::estimate::ServiceTime).
///
/// The text of the paper that was available lacks several numbers, and a few of its details are ambiguous. The fields of [`RateOptions`] and
/// [`PeriodOptions`](crate::PeriodOptions) determine these numbers and details.
///
/// A sample costs some tens of nanoseconds and allocates nothing.
///
/// ```
/// use armature_papers::{RateEstimator, RateOptions, Sample};
///
/// let period = 0.001;
/// let mut estimator = RateEstimator::new(period, RateOptions::default())?;
/// let mut converged = None;
/// for i in 0..2000 {
///     // 200 items a period; every seventh one saw only part of them, every third is blocked.
///     let items = if i % 7 == 0 { 120.0 } else { 200.0 };
///     let blocked = i % 3 == 0;
///     converged = estimator.add(Sample { items, period, blocked }).or(converged);
/// }
/// let rate = converged.unwrap().rate;
/// assert!((rate / 200_000.0 - 1.0).abs() < 0.2, "{rate}");
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct RateEstimator {
    options: RateOptions,
    period: f64,
    smooth: Smooth,
    quantiles: Running,
    convergence: Convergence,
    samples: u64,
    last: Option<RateEstimate>,
}

impl RateEstimator {
    /// Creates an estimator for periods of `period` seconds.
    ///
    /// # Errors
    /// The errors of [`RateOptions::validate`], and [`ErrorKind::Options`] if the period is not from 1e-60 to 1e60 s.
    pub fn new(period: f64, options: RateOptions) -> Result<Self> {
        options.validate()?;
        if !range::is_positive(period) {
            let message = format!("the sampling period in seconds must be {POSITIVE}, but is {period}");
            return Err(Error::new(ErrorKind::Options, message));
        }
        Ok(RateEstimator {
            options,
            period,
            smooth: Smooth::new(&options),
            quantiles: Running::new(),
            convergence: Convergence::new(&options),
            samples: 0,
            last: None,
        })
    }

    /// Returns the length of a sampling period in seconds (T in the paper of Beard and Chamberlain).
    pub fn period(&self) -> f64 {
        self.period
    }

    /// Adds the number of items that the server moved in one sampling period. Returns the rate of the server when the
    /// estimate has converged, and then begins the next estimate with the samples of the current window.
    pub fn add(&mut self, sample: Sample) -> Option<RateEstimate> {
        let Sample { items, period, blocked } = sample;
        let deviation = (period - self.period).abs();
        let used =
            !blocked && range::amount(items).is_some() && deviation <= self.options.deviation * self.period;
        if !used {
            return None;
        }
        self.samples += 1;
        let quantile = self.smooth.add(items, self.options.quantile)?;
        self.quantiles.add(quantile);
        let error = self.quantiles.standard_error();
        // If all samples have 0 items, the mean is 0, and the standard error must not be divided by it.
        let scale =
            if self.options.relative && self.quantiles.mean() > 0.0 { self.quantiles.mean() } else { 1.0 };
        let converged = self.convergence.add(error / scale);
        if !converged || self.quantiles.count() < self.options.min_quantiles {
            return None;
        }
        let estimate = RateEstimate { converged: true, ..self.running()? };
        self.quantiles = Running::new();
        self.convergence.clear();
        self.last = Some(estimate);
        self.last
    }

    /// Returns the last converged estimate of the rate. Before the first one, returns the unconverged estimate, or
    /// `None` while there are too few samples for one.
    pub fn estimate(&self) -> Option<RateEstimate> {
        self.last.or_else(|| self.running())
    }

    /// Returns the current estimate of the rate, which has not converged yet; `None` if no quantile
    /// has been computed since the last converged estimate.
    pub fn running(&self) -> Option<RateEstimate> {
        (self.quantiles.count() > 0).then(|| RateEstimate {
            rate: self.quantiles.mean() / self.period,
            converged: false,
            quantiles: self.quantiles.count(),
            samples: self.samples,
        })
    }
}

#[cfg(test)]
#[path = "estimator_tests.rs"]
mod tests;

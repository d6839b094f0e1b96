//! Parameters of the rate estimator, and the choices of this crate where the text of the paper of Beard and Chamberlain is ambiguous.

use armature_planner::range::{self, POSITIVE};
use armature_planner::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};

/// Maximum number of samples in the sliding window. Each sample is stored, and each new sample scans all of them.
pub(super) const MOST_SAMPLES: usize = 1 << 16;

/// Parameters of a [`RateEstimator`](super::RateEstimator).
///
/// Default values that are not in the available text of the paper of Beard and Chamberlain were chosen for this crate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RateOptions {
    /// Number of samples in the sliding window: more than 2 · `radius` + 1, and at most 65,536. It is w in the paper
    /// of Beard and Chamberlain, which gives no value in the text available to us.
    pub window: usize,
    /// Radius of the Gaussian that smooths the window (2 in the paper of Beard and Chamberlain).
    pub radius: usize,
    /// True if the weights of the Gaussian are divided by their sum. The weights as printed in the paper of Beard and Chamberlain sum to 0.9909,
    /// which lowers every estimate by 0.9 %.
    pub normalise: bool,
    /// Number of standard deviations between the mean and the quantile that counts as the full rate; 1.64485 gives
    /// the 95th percentile of a Gaussian. The paper of Beard and Chamberlain gives no value in the text available to
    /// us.
    pub quantile: f64,
    /// Standard deviation of the Laplacian of Gaussian for the convergence test. The paper of Beard and Chamberlain
    /// gives no value in the text available to us.
    pub log_sigma: f64,
    /// True if the mean of the Laplacian kernel is subtracted from the kernel. The kernel as printed in the paper of Beard and Chamberlain sums to
    /// −0.6 and responds to the size of the standard error instead of its change, so that on an absolute scale the estimate never converges.
    pub zero_sum: bool,
    /// True if the standard error is divided by the mean, so that the tolerance has no unit.
    pub relative: bool,
    /// Maximum absolute value of a filtered standard error that counts as converged. The paper of Beard and
    /// Chamberlain gives no value in the text available to us.
    pub tolerance: f64,
    /// Number of consecutive converged values after which the estimate is complete. The paper of Beard and
    /// Chamberlain gives no value in the text available to us.
    pub convergence_window: usize,
    /// Minimum number of quantiles of which an estimate is the mean; at least 2.
    pub min_quantiles: u64,
    /// Maximum relative difference between the actual period of a sample and the requested period T; other samples are ignored.
    pub deviation: f64,
}

impl Default for RateOptions {
    fn default() -> Self {
        RateOptions {
            window: 32,
            radius: 2,
            normalise: true,
            quantile: 1.64485,
            log_sigma: 0.5,
            zero_sum: true,
            relative: true,
            tolerance: 5e-7,
            convergence_window: 16,
            min_quantiles: 16,
            deviation: 0.01,
        }
    }
}

impl RateOptions {
    /// Checks that every parameter of the estimator is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] with the first invalid number.
    pub fn validate(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Options, message));
        // A standard deviation needs two smoothed values, so the window needs at least 2 · radius + 2 samples.
        let least = self.radius.saturating_mul(2).saturating_add(2);
        if self.window < least {
            return invalid(format!(
                "a window of {} samples is too small for a radius of {}: it takes at least {least}",
                self.window, self.radius
            ));
        }
        if self.window > MOST_SAMPLES {
            return invalid(format!(
                "a window has at most {MOST_SAMPLES} samples, but this has {}",
                self.window
            ));
        }
        for (name, value) in [
            ("quantile", self.quantile),
            ("log_sigma", self.log_sigma),
            ("tolerance", self.tolerance),
            ("deviation", self.deviation),
        ] {
            if !range::is_positive(value) {
                return invalid(format!("{name} must be {POSITIVE}, but is {value}"));
            }
        }
        if self.convergence_window == 0 || self.min_quantiles < 2 {
            return invalid(format!(
                "convergence takes a window of at least 1 and at least 2 quantiles, but they are {} and {}",
                self.convergence_window, self.min_quantiles
            ));
        }
        Ok(())
    }
}

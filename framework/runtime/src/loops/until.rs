//! Loops until convergence: options, residuals, and rank 0's decisions whether the loop has converged.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Announcement;

/// Options of a loop that runs until it has converged: the maximum number of passes, the passes between two checks, and how the residuals of the
/// ranks are combined.
///
/// ```
/// use armature::loops::Until;
///
/// // A check after every tenth pass, and no more than 5000 passes.
/// let until = Until::at_most(5_000).every(10);
/// # let _ = until;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    pub(super) passes: u64,
    pub(super) every: u64,
    sums: bool,
}

impl Until {
    /// Limits the loop to `passes` passes, sweeps or steps, with a convergence check after each. The residual of the loop is the largest residual of
    /// a rank.
    pub fn at_most(passes: u64) -> Self {
        Until { passes, every: 1, sums: false }
    }

    /// Sets the number of passes between two checks, at least 1. At a check all ranks wait for each other.
    pub fn every(self, passes: u64) -> Self {
        Until { every: passes, ..self }
    }

    /// Makes the residual of the loop the sum of the ranks' residuals, for example of squares. The rounding of the sum depends on the number of ranks
    /// and on the movements of units (rows or indices) between ranks, so that a loop may end one check earlier or later.
    pub fn sum(self) -> Self {
        Until { sums: true, ..self }
    }

    pub(super) fn check(&self) -> Result<()> {
        match self.every {
            0 => Err(Error::new(ErrorKind::Config, "the check interval is 0 passes, expected at least 1")),
            _ => Ok(()),
        }
    }

    /// Adds these options to `what`, the announcement by which ranks check that they run the same loop, because the options must be equal on all
    /// ranks.
    pub(super) fn announced(&self, what: Announcement) -> Announcement {
        what.with("Until::at_most", self.passes)
            .with("Until::every", self.every)
            .with("Until::sum", if self.sums { "set" } else { "unset" })
    }

    /// Returns the neutral element of [`combine`](Until::combine), the initial value of a rank's residual.
    pub(super) fn nothing(&self) -> f64 {
        if self.sums { 0.0 } else { f64::NEG_INFINITY }
    }

    /// Combines the residuals of two ranks. NaN stays NaN, because it must not look like convergence.
    pub(super) fn combine(&self, one: f64, other: f64) -> f64 {
        match self.sums {
            true => one + other,
            false if one.is_nan() || other.is_nan() => f64::NAN,
            false => one.max(other),
        }
    }
}

/// Result of a loop that ran until it had converged. It is equal on all ranks, except for the summary.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Converged {
    /// Number of passes that the loop has done.
    pub passes: u64,
    /// Residual at the last convergence check; `None` if there was no check.
    pub residual: Option<f64>,
    /// True if the user's condition for convergence held at the last check. Otherwise all passes were done.
    pub is_converged: bool,
    /// Summary of the run, on rank 0.
    pub summary: Option<Summary>,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct CheckResult {
    pub(super) passes: u64,
    pub(super) residual: f64,
    pub(super) is_converged: bool,
}

impl Converged {
    /// Creates the result of the loop from rank 0's last convergence check. `passes` is the number of passes if no check ended the loop.
    pub(super) fn new(last: Option<CheckResult>, passes: u64, summary: Option<Summary>) -> Self {
        Converged {
            passes: last.filter(|last| last.is_converged).map_or(passes, |last| last.passes),
            residual: last.map(|last| last.residual),
            is_converged: last.is_some_and(|last| last.is_converged),
            summary,
        }
    }
}

/// Residual of a rank since the last convergence check. User code adds to it on its thread, and the thread that communicates takes it.
#[derive(Clone)]
pub(super) struct OwnResidual {
    until: Until,
    bits: Arc<AtomicU64>,
}

impl OwnResidual {
    pub(super) fn new(until: Until) -> Self {
        OwnResidual { until, bits: Arc::new(AtomicU64::new(until.nothing().to_bits())) }
    }

    /// Adds the residual of the units (rows or indices) that user code has just computed. Only the thread that runs user code calls this function,
    /// and never while the other thread [takes](OwnResidual::take) the residual.
    #[inline]
    pub(super) fn add(&self, residual: f64) {
        let before = f64::from_bits(self.bits.load(Ordering::Relaxed));
        self.bits.store(self.until.combine(before, residual).to_bits(), Ordering::Release);
    }

    pub(super) fn take(&self) -> f64 {
        f64::from_bits(self.bits.swap(self.until.nothing().to_bits(), Ordering::AcqRel))
    }
}

impl fmt::Debug for OwnResidual {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnResidual").field(&self.until).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn residuals_are_reduced_and_nan_is_kept() {
        let all = |until: Until, values: &[f64]| {
            let residual = OwnResidual::new(until);
            values.iter().for_each(|value| residual.add(*value));
            (residual.take(), residual.take())
        };
        let most = Until::at_most(5);
        assert_eq!(all(most, &[0.5, -3.0, 2.0]), (2.0, f64::NEG_INFINITY));
        assert_eq!(all(most.sum(), &[0.5, -3.0, 2.0]), (-0.5, 0.0));
        for until in [most, most.sum()] {
            assert!(all(until, &[1.0, f64::NAN, 2.0]).0.is_nan());
        }
        assert!(most.every(0).check().is_err() && most.every(7).check().is_ok());
    }

    #[test]
    fn converged_reports_the_final_check() {
        let check_result = |is_converged| Some(CheckResult { passes: 4, residual: 0.25, is_converged });
        let converged = Converged::new(check_result(true), 100, None);
        assert_eq!((converged.passes, converged.residual, converged.is_converged), (4, Some(0.25), true));
        let all = Converged::new(check_result(false), 5, None);
        assert_eq!((all.passes, all.residual, all.is_converged), (5, Some(0.25), false));
        assert_eq!(Converged::new(None, 0, None).residual, None);
    }
}

//! Loops until convergence: when they are checked, and what comes of it.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

use super::summary::Summary;
use crate::error::{Error, ErrorKind, Result};
use crate::session::Announcement;

/// How far a loop goes that runs until it has converged, and how its residual is made of those of the ranks.
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
    /// At most this number of passes, sweeps or steps, with a check after each. The residual of the loop is the largest of all ranks.
    pub fn at_most(passes: u64) -> Self {
        Until { passes, every: 1, sums: false }
    }

    /// A check after every `passes` passes, at least 1. At a check all ranks wait for each other.
    pub fn every(self, passes: u64) -> Self {
        Until { every: passes, ..self }
    }

    /// The residual of the loop is the sum of those of all ranks: of squares, for example. Numbers are rounded in another order on another number of
    /// ranks, and wherever units move, so that a loop may end a check sooner or later.
    pub fn sum(self) -> Self {
        Until { sums: true, ..self }
    }

    /// Whether it can be used.
    ///
    /// # Errors
    /// [`ErrorKind::Config`] if it has no checks.
    pub(super) fn check(&self) -> Result<()> {
        match self.every {
            0 => Err(Error::new(ErrorKind::Config, "a check every 0 passes, expected at least 1")),
            _ => Ok(()),
        }
    }

    /// What all ranks must have set in the same way.
    pub(super) fn announced(&self, what: Announcement) -> Announcement {
        what.with("Until::at_most", self.passes)
            .with("Until::every", self.every)
            .with("Until::sum", if self.sums { "set" } else { "unset" })
    }

    /// What there is before the first residual.
    pub(super) fn nothing(&self) -> f64 {
        if self.sums { 0.0 } else { f64::NEG_INFINITY }
    }

    /// Two residuals as one. What is not a number stays so: it is not to look like convergence.
    pub(super) fn combine(&self, one: f64, other: f64) -> f64 {
        match self.sums {
            true => one + other,
            false if one.is_nan() || other.is_nan() => f64::NAN,
            false => one.max(other),
        }
    }
}

/// How a loop ended that ran until it had converged; the same on all ranks but for the summary.
#[derive(Clone, Debug, PartialEq)]
pub struct Converged {
    /// Passes that were done.
    pub passes: u64,
    /// The residual at the last check; `None` if there was none.
    pub residual: Option<f64>,
    /// Whether the condition held then. Else all passes were done.
    pub is_converged: bool,
    /// On rank 0.
    pub summary: Option<Summary>,
}

/// What rank 0 found at a check.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Verdict {
    pub(super) passes: u64,
    pub(super) residual: f64,
    pub(super) is_over: bool,
}

impl Converged {
    /// By the last verdict, where `passes` are done without one.
    pub(super) fn new(last: Option<Verdict>, passes: u64, summary: Option<Summary>) -> Self {
        Converged {
            passes: last.filter(|last| last.is_over).map_or(passes, |last| last.passes),
            residual: last.map(|last| last.residual),
            is_converged: last.is_some_and(|last| last.is_over),
            summary,
        }
    }
}

/// The residual of a rank since the last check: user code adds to it where it runs, and the rank takes it where it communicates.
#[derive(Clone)]
pub(super) struct OwnResidual {
    until: Until,
    bits: Arc<AtomicU64>,
}

impl OwnResidual {
    pub(super) fn new(until: Until) -> Self {
        OwnResidual { until, bits: Arc::new(AtomicU64::new(until.nothing().to_bits())) }
    }

    /// Adds what has come of a piece. Only the thread that runs user code does so, and never while the rank [takes](OwnResidual::take) it.
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
    fn the_largest_or_the_sum_and_what_is_no_number_stays() {
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
    fn a_loop_ends_at_the_check_that_says_so() {
        let verdict = |is_over| Some(Verdict { passes: 4, residual: 0.25, is_over });
        let over = Converged::new(verdict(true), 100, None);
        assert_eq!((over.passes, over.residual, over.is_converged), (4, Some(0.25), true));
        let all = Converged::new(verdict(false), 5, None);
        assert_eq!((all.passes, all.residual, all.is_converged), (5, Some(0.25), false));
        assert_eq!(Converged::new(None, 0, None).residual, None);
    }
}

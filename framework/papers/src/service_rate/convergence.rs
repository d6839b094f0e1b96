//! Convergence test for a mean, from its standard errors.

use super::kernel::laplacian_of_gaussian;
use super::options::RateOptions;

/// Convergence test for a series of standard errors. The series has converged when its last values, filtered with a Laplacian of Gaussian, are all
/// within a tolerance of zero, so that the slope of the error no longer changes.
#[derive(Clone, Debug)]
pub(super) struct Convergence {
    kernel: [f64; 3],
    tolerance: f64,
    needed: usize,
    /// Last two standard errors, the older one first. The field `seen` counts all standard errors so far.
    last: [f64; 2],
    seen: u64,
    /// Number of consecutive filtered standard errors that are within the tolerance.
    row: usize,
}

impl Convergence {
    pub(super) fn new(options: &RateOptions) -> Self {
        Convergence {
            kernel: laplacian_of_gaussian(options.log_sigma, options.zero_sum),
            tolerance: options.tolerance,
            needed: options.convergence_window,
            last: [0.0; 2],
            seen: 0,
            row: 0,
        }
    }

    pub(super) fn add(&mut self, error: f64) -> bool {
        let [older, old] = self.last;
        self.last = [old, error];
        self.seen += 1;
        if self.seen < 3 {
            return false;
        }
        let filtered = self.kernel[0] * older + self.kernel[1] * old + self.kernel[2] * error;
        self.row = if filtered.abs() <= self.tolerance { self.row + 1 } else { 0 };
        self.row >= self.needed
    }

    pub(super) fn clear(&mut self) {
        (self.seen, self.row) = (0, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constant_series_converges_and_a_jump_restarts_the_window() {
        let options = RateOptions { convergence_window: 4, tolerance: 1e-3, ..RateOptions::default() };
        let mut convergence = Convergence::new(&options);
        let mut add = |errors: &[f64]| errors.iter().map(|&error| convergence.add(error)).collect::<Vec<_>>();
        assert_eq!(add(&[0.5; 6]), [false, false, false, false, false, true]);
        assert_eq!(add(&[0.6]), [false]);
        // The jump from 0.5 to 0.6 changes three filtered values, because the filter spans three errors.
        assert_eq!(add(&[0.6; 5]), [false, false, false, false, true]);
        convergence.clear();
        assert!(!convergence.add(0.6));
    }

    #[test]
    fn raw_kernel_does_not_converge_on_constant_errors() {
        let options = RateOptions { zero_sum: false, tolerance: 1e-3, ..RateOptions::default() };
        let mut convergence = Convergence::new(&options);
        assert!((0..100).all(|_| !convergence.add(0.5)));
    }
}

//! Repeated squaring of a symmetric matrix until only the projection on its dominant eigenvector remains.
//!
//! The purity of a matrix with trace 1 and eigenvalues λᵢ ≥ 0 is Σ λᵢ², the trace of its square. The purity is 1 if and only if one eigenvalue is 1
//! and the others are 0. Each square is divided by the purity, which therefore also shows when the squaring has converged.

use crate::matrix::Symmetric;

/// Conditions under which repeated squaring ends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Accepted difference of the purity (the sum of the squared eigenvalues) from 1.
    pub tolerance: f64,
    /// Maximum number of squarings. Without a dominant eigenvector the squaring does not converge.
    pub squarings: usize,
}

/// State of repeated squaring: the matrix after the last squaring, and the purity of each matrix before its squaring.
#[derive(Clone, Debug, PartialEq)]
pub struct Squaring {
    matrix: Symmetric,
    limits: Limits,
    purities: Vec<f64>,
}

/// Decision after a squaring of the matrix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// The matrix must be squared again.
    Square,
    /// No further squaring is needed: the matrix is the projection on the dominant eigenvector.
    Done,
}

impl Squaring {
    /// Starts repeated squaring with `matrix`, whose eigenvalues must not be negative.
    pub fn new(mut matrix: Symmetric, limits: Limits) -> Self {
        matrix.divide(matrix.trace());
        Squaring { matrix, limits, purities: Vec::new() }
    }

    /// Returns the matrix to be squared next or, after the last squaring, the projection on the dominant eigenvector.
    pub fn matrix(&self) -> &Symmetric {
        &self.matrix
    }

    /// Returns the purity (sum of the squared eigenvalues) of each matrix that was squared.
    pub fn purities(&self) -> &[f64] {
        &self.purities
    }

    /// Replaces the current matrix by its square `square`, and decides whether to continue.
    ///
    /// # Errors
    /// The purity (sum of the squared eigenvalues, at most 1) is still too small after the maximum number of squarings.
    pub fn step(&mut self, mut square: Symmetric) -> Result<Step, String> {
        let purity = square.trace();
        square.divide(purity);
        self.matrix = square;
        self.purities.push(purity);
        if 1.0 - purity <= self.limits.tolerance {
            return Ok(Step::Done);
        }
        if self.purities.len() >= self.limits.squarings {
            return Err(format!(
                "the purity is {purity} after {} squarings, expected at least 1 - {:e}: set more --squarings, unless no eigenvector dominates",
                self.purities.len(),
                self.limits.tolerance
            ));
        }
        Ok(Step::Square)
    }

    /// Executes all squarings serially with a plain loop.
    ///
    /// # Errors
    /// The errors of [`step`](Squaring::step).
    pub fn serial(matrix: Symmetric, limits: Limits) -> Result<Self, String> {
        let mut squaring = Squaring::new(matrix, limits);
        while squaring.step(squaring.matrix.square())? == Step::Square {}
        Ok(squaring)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits { tolerance: 1e-12, squarings: 40 };

    #[test]
    fn squaring_converges_to_the_dominant_projection() {
        // The matrix has the eigenvalues 3 and 1, with the eigenvectors (1, 1) and (1, -1).
        let matrix = Symmetric::from_fn(2, |i, j| if i == j { 2.0 } else { 1.0 });
        let squaring = Squaring::serial(matrix, LIMITS).unwrap();
        for row in 0..2 {
            assert!(squaring.matrix().row(row).iter().all(|x| (x - 0.5).abs() < 1e-12));
        }
        // The purity of the first matrix is (3/4)² + (1/4)², and that of the second (9/10)² + (1/10)².
        assert_eq!(squaring.purities()[0], 0.625);
        assert!((squaring.purities()[1] - 0.82).abs() < 1e-15);
        assert!(squaring.purities().is_sorted() && squaring.purities().len() <= 7);
    }

    #[test]
    fn squaring_without_a_dominant_eigenvector_is_an_error() {
        let identity = Symmetric::from_fn(3, |i, j| if i == j { 1.0 } else { 0.0 });
        let error = Squaring::serial(identity, LIMITS).unwrap_err();
        assert!(
            error.contains("after 40 squarings") && error.contains("no eigenvector dominates"),
            "{error}"
        );
    }

    #[test]
    fn single_place_matrix_is_its_own_projection() {
        let one = Squaring::serial(Symmetric::from_fn(1, |_, _| 1.0), LIMITS).unwrap();
        assert_eq!((one.matrix().row(0), one.purities()), (&[1.0][..], &[1.0][..]));
    }
}

//! Dominant eigenvalue and eigenvector of a matrix, computed from the matrix that projects on the eigenvector.

use crate::matrix::{Symmetric, dot};

/// Dominant eigenvalue of a matrix and its eigenvector.
#[derive(Clone, Debug, PartialEq)]
pub struct Dominant {
    /// Dominant eigenvalue λ.
    pub value: f64,
    /// Eigenvector v of length 1.
    pub vector: Vec<f64>,
    /// Relative error of λ and v as eigenvalue and eigenvector of the matrix A: ‖A v − λ v‖ / λ.
    pub residual: f64,
}

impl Dominant {
    /// Computes the dominant eigenvalue and eigenvector of `matrix` from the projection on the eigenvector, the limit of repeated squaring of
    /// `matrix`.
    pub fn of(projection: &Symmetric, matrix: &Symmetric) -> Self {
        // Every row of the projection is a multiple of the eigenvector. The row with the largest diagonal element has the largest norm.
        let longest = (0..projection.size())
            .max_by(|&i, &j| projection.row(i)[i].total_cmp(&projection.row(j)[j]))
            .unwrap_or(0);
        let row = projection.row(longest);
        let length = dot(row, row).sqrt();
        let vector: Vec<f64> = row.iter().map(|x| x / length).collect();
        let image = matrix.times(&vector);
        let value = dot(&vector, &image);
        let rest: Vec<f64> = image.iter().zip(&vector).map(|(y, x)| y - value * x).collect();
        let residual = dot(&rest, &rest).sqrt() / value;
        Dominant { value, vector, residual }
    }

    /// Returns the indexes of the `most` largest entries of the eigenvector, largest first.
    pub fn largest(&self, most: usize) -> Vec<usize> {
        let mut places: Vec<usize> = (0..self.vector.len()).collect();
        places.sort_by(|&i, &j| self.vector[j].total_cmp(&self.vector[i]).then(i.cmp(&j)));
        places.truncate(most);
        places
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{scatter, weights};
    use crate::squaring::{Limits, Squaring};

    #[test]
    fn dominant_eigenvector_agrees_with_the_power_method() {
        let matrix = weights(&scatter(60, 5), 0.2);
        let limits = Limits { tolerance: 1e-13, squarings: 40 };
        let squaring = Squaring::serial(matrix.clone(), limits).unwrap();
        let found = Dominant::of(squaring.matrix(), &matrix);
        assert!(found.residual < 1e-12, "{}", found.residual);
        let mut vector = vec![1.0; 60];
        for _ in 0..2000 {
            vector = matrix.times(&vector);
            let length = dot(&vector, &vector).sqrt();
            vector.iter_mut().for_each(|x| *x /= length);
        }
        assert!(found.vector.iter().zip(&vector).all(|(a, b)| (a - b).abs() < 1e-9));
        assert!((dot(&vector, &matrix.times(&vector)) - found.value).abs() < 1e-9);
    }

    #[test]
    fn largest_components_come_first() {
        let dominant = Dominant { value: 1.0, vector: vec![0.2, 0.9, 0.2, 0.5], residual: 0.0 };
        assert_eq!(dominant.largest(3), [1, 3, 0]);
        assert_eq!(dominant.largest(9), [1, 3, 0, 2]);
    }
}

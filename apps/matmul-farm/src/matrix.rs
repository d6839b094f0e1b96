//! Symmetric matrices.

/// Symmetric matrix. All elements are stored, row by row.
#[derive(Clone, Debug, PartialEq)]
pub struct Symmetric {
    size: usize,
    values: Vec<f64>,
}

impl Symmetric {
    /// Creates the matrix with `value(i, j)` in row i and column j, and in row j and column i. `value` is called for i ≥ j only.
    pub fn from_fn(size: usize, value: impl Fn(usize, usize) -> f64) -> Self {
        let mut matrix = Symmetric { size, values: vec![0.0; size * size] };
        for i in 0..size {
            for j in 0..=i {
                matrix.set(i, j, value(i, j));
            }
        }
        matrix
    }

    /// Returns the number of rows, which is the number of columns.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Returns row `i`, which is also column `i`.
    pub fn row(&self, i: usize) -> &[f64] {
        &self.values[i * self.size..][..self.size]
    }

    /// Returns a range of rows, one row after another in memory.
    pub fn rows(&self, which: std::ops::Range<usize>) -> &[f64] {
        &self.values[which.start * self.size..which.end * self.size]
    }

    /// Sets the elements in row `i` and column `j`, and in row `j` and column `i`.
    pub fn set(&mut self, i: usize, j: usize, value: f64) {
        self.values[i * self.size + j] = value;
        self.values[j * self.size + i] = value;
    }

    /// Returns the sum of the diagonal, which is the sum of the eigenvalues.
    pub fn trace(&self) -> f64 {
        (0..self.size).map(|i| self.values[i * self.size + i]).sum()
    }

    /// Divides every element by `by`.
    pub fn divide(&mut self, by: f64) {
        self.values.iter_mut().for_each(|value| *value /= by);
    }

    /// Returns the square of the matrix, computed element by element. Tests compare the parallel computation with this one.
    pub fn square(&self) -> Self {
        Symmetric::from_fn(self.size, |i, j| dot(self.row(i), self.row(j)))
    }

    /// Returns the product of the matrix with a vector.
    pub fn times(&self, vector: &[f64]) -> Vec<f64> {
        (0..self.size).map(|i| dot(self.row(i), vector)).collect()
    }
}

/// Number of independent partial sums of a scalar product, so that a processor can add them in parallel.
const LANES: usize = 8;

/// Returns the scalar product. The order of additions depends only on the length, so that the bits are equal on every rank.
///
/// # Panics
/// Panics if the lengths differ.
pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "a scalar product of vectors of different lengths");
    let ((a, a_rest), (b, b_rest)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    let mut lanes = [0.0; LANES];
    for (a, b) in a.iter().zip(b) {
        for lane in 0..LANES {
            lanes[lane] += a[lane] * b[lane];
        }
    }
    let rest: f64 = a_rest.iter().zip(b_rest).map(|(a, b)| a * b).sum();
    lanes.iter().sum::<f64>() + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn square_trace_and_product_of_a_known_matrix_are_correct() {
        let matrix = Symmetric::from_fn(2, |i, j| (i + 2 * j) as f64);
        assert_eq!((matrix.row(0), matrix.row(1)), (&[0.0, 1.0][..], &[1.0, 3.0][..]));
        assert_eq!(matrix.square().values, [1.0, 3.0, 3.0, 10.0]);
        assert_eq!(matrix.trace(), 3.0);
        assert_eq!(matrix.times(&[2.0, 1.0]), [1.0, 5.0]);
    }

    #[test]
    fn scalar_product_uses_every_element_once() {
        for length in [0, 1, 7, 8, 9, 40] {
            let a: Vec<f64> = (1..=length).map(f64::from).collect();
            let ones = vec![1.0; a.len()];
            assert_eq!(dot(&a, &ones), f64::from(length * (length + 1) / 2), "{length}");
        }
    }
}

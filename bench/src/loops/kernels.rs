//! Computations of the parallel loops. Every element is computed by the same operations in the same order, regardless
//! of its rank and of the division of rows and columns, so results are bitwise identical.

use std::ops::Range;

/// Step of the heat equation (Jacobi), shared with the program `heat`.
pub use heat::kernel::step;
/// C = A · B for some rows of A and C, shared with the program `matmul`.
pub use matmul::kernel::{Factor, multiply};
/// Initial elements of a row, and a sweep of over-relaxation, shared with the program `sor`.
pub use sor::kernel::{fill, relax};

/// Returns some rows of the unbounded matrix of initial values, each with its first `width` values.
pub fn rows(rows: Range<usize>, width: usize) -> Vec<f64> {
    let mut values = vec![0.0; rows.len() * width];
    rows.zip(values.chunks_exact_mut(width)).for_each(|(row, values)| fill(row as u64, values));
    values
}

//! What the loops compute. Every element is made by the same operations in the same order wherever its row is and however
//! rows and columns are cut, so results are the same to the last bit.

use std::ops::Range;

/// One step of the heat equation (Jacobi): that of the program `heat`.
pub use heat::kernel::step;
/// C = A · B for some rows of A and C: that of the program `matmul`.
pub use matmul::kernel::{Factor, multiply};
/// Initial elements of a row, and a sweep of over-relaxation: those of the program `sor`.
pub use sor::kernel::{fill, relax};

/// Rows of this width of the endless sheet of initial elements.
pub fn rows(rows: Range<usize>, width: usize) -> Vec<f64> {
    let mut values = vec![0.0; rows.len() * width];
    rows.zip(values.chunks_exact_mut(width)).for_each(|(row, values)| fill(row as u64, values));
    values
}

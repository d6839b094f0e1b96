//! What the loops compute. Every element is made by the same operations in the same order wherever its row is and however
//! rows and columns are cut, so results are the same to the last bit.

use std::ops::Range;

/// Initial elements of a row, and a sweep of over-relaxation: those of the program `sor`.
pub use sor::kernel::{fill, relax};

/// Columns and rows of B that stay in the cache while rows of A pass by.
const TILE: (usize, usize) = (256, 64);

/// Rows of this width of the endless sheet of initial elements.
pub fn rows(rows: Range<usize>, width: usize) -> Vec<f64> {
    let mut values = vec![0.0; rows.len() * width];
    rows.zip(values.chunks_exact_mut(width)).for_each(|(row, values)| fill(row as u64, values));
    values
}

/// C = A · B for some rows of A and C; B is `width` × `width`.
pub fn multiply(a: &[f64], b: &[f64], c: &mut [f64], width: usize) {
    c.fill(0.0);
    for columns in (0..width).step_by(TILE.0).map(|j| j..width.min(j + TILE.0)) {
        for inner in (0..width).step_by(TILE.1).map(|k| k..width.min(k + TILE.1)) {
            for (a, c) in a.chunks_exact(width).zip(c.chunks_exact_mut(width)) {
                let c = &mut c[columns.clone()];
                for k in inner.clone() {
                    let (factor, b) = (a[k], &b[k * width..][columns.clone()]);
                    c.iter_mut().zip(b).for_each(|(c, b)| *c += factor * b);
                }
            }
        }
    }
}

/// One step of the heat equation (Jacobi) for row `row` of `old`, written to `new`, which has the row alone. Its first and
/// last element stay as they are.
pub fn heat(old: &[f64], new: &mut [f64], width: usize, row: usize) {
    let line = |row: usize| &old[row * width..][..width];
    let (above, here, below) = (line(row - 1), line(row), line(row + 1));
    new[0] = here[0];
    new[width - 1] = here[width - 1];
    for j in 1..width - 1 {
        new[j] = here[j] + 0.2 * (above[j] + below[j] + here[j - 1] + here[j + 1] - 4.0 * here[j]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WIDTH: usize = 37;

    #[test]
    fn a_product_has_the_bits_of_the_plain_loop_for_any_rows() {
        let width = 130;
        let (a, b) = (rows(0..width, width), rows(500..500 + width, width));
        let mut plain = vec![0.0; width * width];
        for i in 0..width {
            for j in 0..width {
                let sum = (0..width).fold(0.0, |sum, k| sum + a[i * width + k] * b[k * width + j]);
                plain[i * width + j] = sum;
            }
        }
        let mut c = vec![f64::NAN; width * width];
        for rows in [0..1, 1..50, 50..130] {
            let (from, to) = (rows.start * width, rows.end * width);
            multiply(&a[from..to], &b, &mut c[from..to], width);
        }
        assert_eq!(c, plain);
    }

    #[test]
    fn a_uniform_temperature_stays() {
        let old = vec![2.5; 3 * WIDTH];
        let mut new = vec![0.0; WIDTH];
        heat(&old, &mut new, WIDTH, 1);
        assert_eq!(new, old[..WIDTH]);
    }
}

//! The serial product.

use armature_apps::random::Random;

/// Columns of B, and rows of it, that stay in the cache while the rows of A pass by: 128 KiB.
const TILE: (usize, usize) = (256, 64);
/// Rows of B that are added to a row of C at once.
const AT_ONCE: usize = 4;

/// `c` = `a` · `b`, where `b` is `width` × `width`, for some rows of `a` and `c`.
///
/// Every element is the sum of its products in their order, whatever the number of rows: which rows are computed together
/// makes no difference, to the bit.
pub fn multiply(a: &[f64], b: &[f64], c: &mut [f64], width: usize) {
    c.fill(0.0);
    for columns in (0..width).step_by(TILE.0).map(|j| j..width.min(j + TILE.0)) {
        for inner in (0..width).step_by(TILE.1).map(|k| k..width.min(k + TILE.1)) {
            for (a, c) in a.chunks_exact(width).zip(c.chunks_exact_mut(width)) {
                let (a, c) = (&a[inner.clone()], &mut c[columns.clone()]);
                let row = |k: usize| &b[(inner.start + k) * width..][columns.clone()];
                let (fours, rest) = a.as_chunks::<AT_ONCE>();
                for (n, f) in fours.iter().enumerate() {
                    let k = AT_ONCE * n;
                    add(c, f, [row(k), row(k + 1), row(k + 2), row(k + 3)]);
                }
                for (n, f) in rest.iter().enumerate() {
                    let b = row(AT_ONCE * fours.len() + n);
                    c.iter_mut().zip(b).for_each(|(c, b)| *c += f * b);
                }
            }
        }
    }
}

/// Adds four rows, each times its factor, one after the other.
fn add(c: &mut [f64], f: &[f64; AT_ONCE], [b0, b1, b2, b3]: [&[f64]; AT_ONCE]) {
    for ((((c, b0), b1), b2), b3) in c.iter_mut().zip(b0).zip(b1).zip(b2).zip(b3) {
        *c = *c + f[0] * b0 + f[1] * b1 + f[2] * b2 + f[3] * b3;
    }
}

/// Floating-point operations of so many rows.
pub fn flops(rows: u64, width: usize) -> f64 {
    2.0 * rows as f64 * (width * width) as f64
}

/// Which of the two matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// The left one.
    A = 1,
    /// The right one.
    B = 2,
}

/// Fills in a row of a matrix, with numbers from 0 to 1.
pub fn fill(matrix: Matrix, row: u64, values: &mut [f64]) {
    let mut random = Random::stream(matrix as u64, row);
    values.fill_with(|| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64);
}

/// So many rows of a matrix.
pub fn rows(matrix: Matrix, rows: std::ops::Range<u64>, width: usize) -> Vec<f64> {
    let mut values = vec![0.0; (rows.end - rows.start) as usize * width];
    rows.zip(values.chunks_exact_mut(width.max(1))).for_each(|(row, values)| fill(matrix, row, values));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Sizes at which tiles, and what is done at once, are whole and are not.
    const SIZES: [usize; 7] = [1, 3, 8, 64, 67, 256, 301];

    fn matrices(width: usize) -> (Vec<f64>, Vec<f64>) {
        (rows(Matrix::A, 0..width as u64, width), rows(Matrix::B, 0..width as u64, width))
    }

    #[test]
    fn every_element_is_the_sum_of_its_products_in_their_order() {
        for width in SIZES {
            let (a, b) = matrices(width);
            let mut c = vec![7.0; width * width];
            multiply(&a, &b, &mut c, width);
            for (i, j) in [(0, 0), (width / 2, width - 1), (width - 1, width / 3)] {
                let sum = (0..width).fold(0.0, |sum, k| sum + a[i * width + k] * b[k * width + j]);
                assert_eq!(c[i * width + j].to_bits(), sum.to_bits(), "{width}: {i}, {j}");
            }
        }
    }

    /// What a library that has other ways for thin blocks does not keep.
    #[test]
    fn the_number_of_rows_makes_no_difference() {
        for width in SIZES {
            let (a, b) = matrices(width);
            let mut whole = vec![0.0; width * width];
            multiply(&a, &b, &mut whole, width);
            for height in [1, 2, 3, 4, 5, 8, 16, 33, 100] {
                let mut parts = vec![0.0; width * width];
                for (a, c) in a.chunks(height * width).zip(parts.chunks_mut(height * width)) {
                    multiply(a, &b, c, width);
                }
                let same = whole.iter().zip(&parts).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{width}, blocks of {height} rows");
            }
        }
    }

    #[test]
    fn elements_are_as_they_should_be_and_differ() {
        let (a, b) = matrices(40);
        assert!(a.iter().chain(&b).all(|x| (0.0..1.0).contains(x)));
        assert!(a != b && rows(Matrix::A, 3..5, 40) == a[3 * 40..5 * 40]);
        let mean = a.iter().sum::<f64>() / a.len() as f64;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        multiply(&[], &b, &mut [], 40);
    }
}

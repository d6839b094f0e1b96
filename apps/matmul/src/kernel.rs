//! Serial product of two square matrices.

use armature_apps::random::Random;
use prefetch_index::prefetch_index;

/// Number of columns of the product C = A · B that are computed together.
const COLUMNS: usize = 8;
/// Number of rows of the product C = A · B that are computed together. The sums of `ROWS` × [`COLUMNS`] elements fit into the registers of every
/// processor with vectors of two elements.
const ROWS: usize = 2;
/// Number of cache lines of a panel (adjacent columns) of B that are used between two prefetches of cache lines of the next panel.
const PIECE: usize = 128;

/// Cache line of adjacent values of a row of B.
type Line = [f64; COLUMNS];

/// Right factor B of the product, stored in the order in which [`multiply`] reads it: panels of adjacent columns, each panel row by row.
#[derive(Clone, Debug)]
pub struct Factor {
    /// Panels, one after another. The last panel is padded with columns of zeros.
    panels: Vec<Line>,
    width: usize,
}

impl Factor {
    /// Creates the right factor from the values, row by row, of a square matrix with `width` columns.
    pub fn new(values: &[f64], width: usize) -> Self {
        let panels = (0..width).step_by(COLUMNS).flat_map(|start| {
            let columns = start..width.min(start + COLUMNS);
            values.chunks_exact(width).map(move |row| {
                let mut line = [0.0; COLUMNS];
                line[..columns.len()].copy_from_slice(&row[columns.clone()]);
                line
            })
        });
        Factor { panels: panels.collect(), width }
    }

    /// Returns the number of rows, which is the number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the panels, each with the index of its first column and the panel after it, which is prefetched.
    fn panels(&self) -> impl Iterator<Item = (usize, &[Line], &[Line])> {
        let panel =
            |number: usize| self.panels.chunks_exact(self.width.max(1)).nth(number).unwrap_or_default();
        (0..self.width.div_ceil(COLUMNS))
            .map(move |number| (number * COLUMNS, panel(number), panel(number + 1)))
    }
}

/// Computes `c` = `a` · `b` for some rows of `a` and `c`.
///
/// Every element of `c` is summed in the same order, so that its bits do not depend on which rows are computed together. The number of rows hardly
/// affects the time per row: while the rows use one panel (adjacent columns) of B, the next panel is prefetched from memory.
pub fn multiply(a: &[f64], b: &Factor, c: &mut [f64]) {
    let height = ROWS * b.width.max(1);
    let steps = a.len().div_ceil(height).max(1);
    for (start, panel, next) in b.panels() {
        let mut parts = next.chunks(next.len().div_ceil(steps).max(1));
        for (a, c) in a.chunks(height).zip(c.chunks_mut(height)) {
            let ahead = parts.next().unwrap_or_default();
            if a.len() == height {
                add_up::<ROWS>(a, panel, ahead, c, start);
            } else {
                add_up::<1>(a, panel, ahead, c, start);
            }
        }
    }
}

/// Computes the elements of `N` rows of C in the columns of `panel`, the first of which is `start`. The cache lines `ahead` of the next panel are
/// prefetched in small groups, because processors can only track a few outstanding prefetches.
fn add_up<const N: usize>(a: &[f64], panel: &[Line], ahead: &[Line], c: &mut [f64], start: usize) {
    let width = panel.len();
    let mut sums = [[0.0; COLUMNS]; N];
    let few = ahead.len().div_ceil(width.div_ceil(PIECE)).max(1);
    let mut ahead = ahead.chunks(few);
    for (piece, first) in panel.chunks(PIECE).zip((0..).step_by(PIECE)) {
        let lines = ahead.next().unwrap_or_default();
        (0..lines.len()).for_each(|line| prefetch_index(lines, line));
        let rows = std::array::from_fn(|row| &a[row * width + first..][..piece.len()]);
        sums = add(sums, rows, piece);
    }
    for (sums, c) in sums.iter().zip(c.chunks_exact_mut(width)) {
        let c = &mut c[start..width.min(start + COLUMNS)];
        c.copy_from_slice(&sums[..c.len()]);
    }
}

/// Returns `sums` (of the rows of C) after adding the products of the rows of A with `lines` in order. Each line has adjacent values of one row of B.
/// The function is not inlined: within another loop, compilers arrange the sums in other vectors, which takes a quarter more time.
#[inline(never)]
fn add<const N: usize>(mut sums: [Line; N], rows: [&[f64]; N], lines: &[Line]) -> [Line; N] {
    let rows = rows.map(|row| &row[..lines.len()]);
    for (k, line) in lines.iter().enumerate() {
        let factors: [f64; N] = std::array::from_fn(|row| rows[row][k]);
        for (sums, factor) in sums.iter_mut().zip(factors) {
            *sums = std::array::from_fn(|column| sums[column] + factor * line[column]);
        }
    }
    sums
}

/// Returns the number of floating-point operations for `rows` rows of a product of matrices with `width` columns.
pub fn flops(rows: u64, width: usize) -> f64 {
    2.0 * rows as f64 * (width * width) as f64
}

/// One of the two factors of the matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// Left factor of the matrix product.
    A = 1,
    /// Right factor of the matrix product.
    B = 2,
}

/// Fills a row of a matrix with random numbers from 0 to 1 that depend only on the matrix and the row.
pub fn fill(matrix: Matrix, row: u64, values: &mut [f64]) {
    let mut random = Random::stream(matrix as u64, row);
    values.fill_with(|| (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64);
}

/// Returns the values of a range of rows of a matrix.
pub fn rows(matrix: Matrix, rows: std::ops::Range<u64>, width: usize) -> Vec<f64> {
    let mut values = vec![0.0; (rows.end - rows.start) as usize * width];
    rows.zip(values.chunks_exact_mut(width.max(1))).for_each(|(row, values)| fill(matrix, row, values));
    values
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZES: [usize; 7] = [1, 3, 8, 64, 67, 256, 301];

    fn matrices(width: usize) -> (Vec<f64>, Vec<f64>) {
        (rows(Matrix::A, 0..width as u64, width), rows(Matrix::B, 0..width as u64, width))
    }

    #[test]
    fn every_element_is_the_sum_of_its_products_in_their_order() {
        for width in SIZES {
            let (a, b) = matrices(width);
            let mut c = vec![7.0; width * width];
            multiply(&a, &Factor::new(&b, width), &mut c);
            for (i, j) in [(0, 0), (width / 2, width - 1), (width - 1, width / 3)] {
                let sum = (0..width).fold(0.0, |sum, k| sum + a[i * width + k] * b[k * width + j]);
                assert_eq!(c[i * width + j].to_bits(), sum.to_bits(), "{width}: {i}, {j}");
            }
        }
    }

    /// Matrix libraries with special code for a small number of rows would fail this test.
    #[test]
    fn product_does_not_depend_on_the_rows_per_call() {
        for width in SIZES {
            let (a, b) = matrices(width);
            let b = Factor::new(&b, width);
            let mut whole = vec![0.0; width * width];
            multiply(&a, &b, &mut whole);
            for height in [1, 2, 3, 4, 5, 8, 16, 33, 100] {
                let mut parts = vec![0.0; width * width];
                for (a, c) in a.chunks(height * width).zip(parts.chunks_mut(height * width)) {
                    multiply(a, &b, c);
                }
                let same = whole.iter().zip(&parts).all(|(a, b)| a.to_bits() == b.to_bits());
                assert!(same, "{width}, blocks of {height} rows");
            }
        }
    }

    #[test]
    fn generated_elements_are_uniform_and_differ_between_matrices() {
        let (a, b) = matrices(40);
        assert!(a.iter().chain(&b).all(|x| (0.0..1.0).contains(x)));
        assert!(a != b && rows(Matrix::A, 3..5, 40) == a[3 * 40..5 * 40]);
        let mean = a.iter().sum::<f64>() / a.len() as f64;
        assert!((0.45..0.55).contains(&mean), "{mean}");
        multiply(&[], &Factor::new(&b, 40), &mut []);
        multiply(&[], &Factor::new(&[], 0), &mut []);
    }
}

//! Product of rows of a matrix and columns of another one, and the serial loop for the whole product.
//!
//! Every element of the product is summed in order from 0 in single precision. Therefore every division into blocks yields the bits of the plain
//! loop.

/// Number of columns of the product whose sums are kept in registers together.
const COLUMNS: usize = 8;
/// Number of rows of the product whose sums are kept in registers together. The sums of `ROWS` × [`COLUMNS`] elements fit into the registers of every
/// processor with vectors of four elements.
const ROWS: usize = 4;

/// Adjacent elements of a row of B that are used together.
type Line = [f32; COLUMNS];

/// Computes `c` = `a` · `b`. Rows of `a` have `inner` elements, and rows of `b` and `c` have `width` elements.
///
/// # Panics
/// Panics if the lengths of `a`, `b` and `c` do not fit together.
pub fn multiply(a: &[f32], b: &[f32], inner: usize, width: usize, c: &mut [f32]) {
    let height = c.len().checked_div(width).unwrap_or(0);
    assert!(a.len() == height * inner && b.len() == inner * width && c.len() == height * width);
    if inner == 0 {
        return c.fill(0.0);
    }
    if (height, width) == (1, 1) {
        c[0] = dot(a, b);
        return;
    }
    let mut lines: Vec<Line> = Vec::with_capacity(inner);
    for start in (0..width).step_by(COLUMNS) {
        let columns = start..width.min(start + COLUMNS);
        // The lines (adjacent elements of rows of B) are copied to contiguous memory, so that they stay in the first-level cache for all rows of A.
        lines.clear();
        lines.extend(b.chunks_exact(width).map(|row| {
            let mut line = [0.0; COLUMNS];
            line[..columns.len()].copy_from_slice(&row[columns.clone()]);
            line
        }));
        for (a, c) in a.chunks(ROWS * inner).zip(c.chunks_mut(ROWS * width)) {
            if a.len() == ROWS * inner {
                add_up::<ROWS>(a, &lines, c, start);
            } else {
                for (a, c) in a.chunks(inner).zip(c.chunks_mut(width)) {
                    add_up::<1>(a, &lines, c, start);
                }
            }
        }
    }
}

/// Returns the product of a row and a column.
pub fn dot(row: &[f32], column: &[f32]) -> f32 {
    row.iter().zip(column).fold(0.0, |sum, (a, b)| sum + a * b)
}

/// Computes `N` rows of C in the columns of `lines` (adjacent elements of the rows of B). `start` is the first of these columns.
fn add_up<const N: usize>(a: &[f32], lines: &[Line], c: &mut [f32], start: usize) {
    let inner = lines.len();
    let sums = add::<N>(std::array::from_fn(|row| &a[row * inner..][..inner]), lines);
    let width = c.len() / N;
    for (sums, c) in sums.iter().zip(c.chunks_exact_mut(width)) {
        let c = &mut c[start..width.min(start + COLUMNS)];
        c.copy_from_slice(&sums[..c.len()]);
    }
}

/// Returns, for each row of A, the sum of the lines (adjacent elements of rows of B) weighted by the row's elements. Not inlined, because within
/// another loop compilers arrange the sums in other vectors.
#[inline(never)]
fn add<const N: usize>(rows: [&[f32]; N], lines: &[Line]) -> [Line; N] {
    let rows = rows.map(|row| &row[..lines.len()]);
    let mut sums = [[0.0; COLUMNS]; N];
    for (k, line) in lines.iter().enumerate() {
        let factors: [f32; N] = std::array::from_fn(|row| rows[row][k]);
        for (sums, factor) in sums.iter_mut().zip(factors) {
            *sums = std::array::from_fn(|column| sums[column] + factor * line[column]);
        }
    }
    sums
}

/// Returns rows of the product, computed by the plain loop. The result of the pipeline must be bit-identical.
///
/// ```
/// use matmul_stream::kernel::serial;
/// assert_eq!(serial(&[1.0, 2.0, 3.0, 4.0], &[5.0, 6.0], 2, 1), [17.0, 39.0]);
/// ```
///
/// # Panics
/// Panics if `a` or `b` has an incomplete row.
pub fn serial(a: &[f32], b: &[f32], inner: usize, columns: usize) -> Vec<f32> {
    assert!(inner > 0 && a.len().is_multiple_of(inner) && b.len() == inner * columns);
    let mut c = Vec::with_capacity(a.len() / inner * columns);
    for row in a.chunks_exact(inner) {
        for j in 0..columns {
            let mut sum = 0.0;
            for (k, a) in row.iter().enumerate() {
                sum += a * b[k * columns + j];
            }
            c.push(sum);
        }
    }
    c
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::matrix::Matrix;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_bitwise_equal_to_the_plain_loop(
            (height, inner, width) in (1_usize..14, 1_usize..40, 1_usize..30),
            seed in 0_u64..1000,
        ) {
            let make = |rows: usize, columns: usize, seed| {
                Matrix::generated(columns as u64, seed).block(0..rows as u64, 0..columns as u64).unwrap()
            };
            let (a, b) = (make(height, inner, seed), make(inner, width, seed + 1));
            let mut c = vec![7.0; height * width];
            multiply(&a, &b, inner, width, &mut c);
            let bits = |values: &[f32]| values.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&c), bits(&serial(&a, &b, inner, width)));
        }
    }

    #[test]
    fn product_of_empty_inner_dimension_is_zero() {
        let mut c = [1.0; 6];
        multiply(&[], &[], 0, 3, &mut c);
        assert_eq!(c, [0.0; 6]);
        multiply(&[], &[1.0; 4], 2, 2, &mut []);
    }
}

//! Serial loop of successive over-relaxation.

use std::ops::Range;

/// Weight of each neighbouring value in the new value of the over-relaxation: ω / 4 with ω = 1.972.
pub const NEIGHBOURS: f64 = 0.493;
/// Weight of the old value in the new value of the over-relaxation: 1 − ω.
pub const SELF: f64 = -0.972;
/// Number of floating-point operations that compute one value of the grid.
pub const FLOPS: f64 = 6.0;

/// Executes one sweep over the given columns of the grid `b`, in all rows except the first and the last row. Rows have `width` values.
pub fn relax(b: &mut [f64], width: usize, columns: Range<usize>) {
    for row in 1..(b.len() / width.max(1)).saturating_sub(1) {
        // One slice covers three rows. With one slice per row, compilers sum several neighbours in advance, and these sums wait for values that have
        // just been written.
        let b = &mut b[(row - 1) * width..(row + 2) * width];
        let mut left = b[width + columns.start - 1];
        for i in columns.clone() {
            // The left neighbour is added last, because it is the result of the previous iteration.
            left = NEIGHBOURS * (b[i] + b[2 * width + i] + b[width + i + 1] + left) + SELF * b[width + i];
            b[width + i] = left;
        }
    }
}

/// Sets the initial values of a row: pseudo-random numbers between 0 and 1.
pub fn fill(row: u64, values: &mut [f64]) {
    for (column, value) in (0_u64..).zip(values) {
        let mixed = row.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ column.wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 29)).wrapping_mul(0x94d0_49bb_1331_11eb);
        *value = (mixed >> 11) as f64 / (1_u64 << 53) as f64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sweep_computes_the_sor_formula_in_gauss_seidel_order() {
        let (rows, width) = (7, 9);
        let mut grid = vec![0.0; rows * width];
        (0..).zip(grid.chunks_exact_mut(width)).for_each(|(row, values)| fill(row, values));
        let mut b = grid.clone();
        relax(&mut grid, width, 1..width - 1);
        for j in 1..rows - 1 {
            for i in 1..width - 1 {
                let at = |j: usize, i: usize| b[j * width + i];
                let sum = at(j - 1, i) + at(j + 1, i) + at(j, i + 1) + at(j, i - 1);
                b[j * width + i] = 0.493 * sum - 0.972 * at(j, i);
            }
        }
        assert_eq!(grid, b);
    }

    #[test]
    fn sweep_in_strips_equals_sweep_over_whole_rows() {
        let (rows, width) = (12, 31);
        let mut whole = vec![0.0; rows * width];
        (0..).zip(whole.chunks_exact_mut(width)).for_each(|(row, values)| fill(row, values));
        let mut strips = whole.clone();
        relax(&mut whole, width, 1..width - 1);
        for start in (1..width - 1).step_by(7) {
            relax(&mut strips, width, start..(start + 7).min(width - 1));
        }
        assert_eq!(whole, strips);
        relax(&mut strips, width, 5..5);
        relax(&mut strips[..width], width, 1..width - 1);
        assert_eq!(whole, strips, "nothing to do");
    }

    #[test]
    fn linear_grid_is_a_solution() {
        let (rows, width) = (8, 8);
        let exact: Vec<f64> = (0..rows * width).map(|n| (n / width + 2 * (n % width)) as f64).collect();
        let mut grid = exact.clone();
        grid[3 * width + 4] += 100.0;
        for _ in 0..3_000 {
            relax(&mut grid, width, 1..width - 1);
        }
        assert!(grid.iter().zip(&exact).all(|(a, b)| (a - b).abs() < 1e-9), "it is found again");
    }
}

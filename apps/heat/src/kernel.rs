//! Serial computation of one time step of the heat equation.

/// Factor κ Δt / h² of the heat equation. The explicit step is unstable above 1/4.
pub const DIFFUSION: f64 = 0.2;
/// Number of floating-point operations for one grid value in one time step.
pub const FLOPS: f64 = 7.0;

/// Computes one time step from the grid `old`. `new` has all rows of `old` except for the first and the last row, which are fixed edges. Rows have
/// `width` values; the first and last columns, also fixed edges, are not written.
pub fn step(old: &[f64], new: &mut [f64], width: usize) {
    for (above, new) in new.chunks_exact_mut(width).enumerate() {
        let b = &old[above * width..(above + 3) * width];
        for i in 1..width.saturating_sub(1) {
            let neighbours = b[i] + b[2 * width + i] + b[width + i - 1] + b[width + i + 1];
            new[i] = b[width + i] + DIFFUSION * (neighbours - 4.0 * b[width + i]);
        }
    }
}

/// Sets the initial values of a row of a plate with `rows` rows. The upper edge is hot and the lower edge cold; between them is a checkerboard of
/// 16 × 16 squares.
pub fn fill(row: u64, rows: u64, values: &mut [f64]) {
    for (column, value) in (0_u64..).zip(values) {
        *value = match row {
            0 => 1.0,
            _ if row + 1 == rows => 0.0,
            _ if (row / 16 + column / 16).is_multiple_of(2) => 0.75,
            _ => 0.25,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plate(rows: usize, width: usize) -> Vec<f64> {
        let mut grid = vec![0.0; rows * width];
        (0..).zip(grid.chunks_exact_mut(width)).for_each(|(row, values)| fill(row, rows as u64, values));
        grid
    }

    #[test]
    fn step_computes_the_five_point_formula() {
        let (rows, width) = (40, 35);
        let old = plate(rows, width);
        let mut new = old.clone();
        step(&old, &mut new[width..(rows - 1) * width], width);
        for j in 0..rows {
            for i in 0..width {
                let at = |j: usize, i: usize| old[j * width + i];
                let is_edge = j == 0 || i == 0 || j == rows - 1 || i == width - 1;
                let sum = |j, i| at(j - 1, i) + at(j + 1, i) + at(j, i - 1) + at(j, i + 1);
                let expected = if is_edge { at(j, i) } else { at(j, i) + 0.2 * (sum(j, i) - 4.0 * at(j, i)) };
                assert_eq!(new[j * width + i], expected);
            }
        }
    }

    #[test]
    fn step_in_bands_equals_step_over_the_whole_grid() {
        let (rows, width) = (12, 9);
        let old = plate(rows, width);
        let (mut whole, mut bands) = (old.clone(), old.clone());
        step(&old, &mut whole[width..11 * width], width);
        for (first, end) in [(1, 2), (2, 9), (9, 11)] {
            step(&old[(first - 1) * width..(end + 1) * width], &mut bands[first * width..end * width], width);
        }
        assert_eq!(whole, bands);
    }

    #[test]
    fn linear_temperature_profile_is_a_fixed_point() {
        // A linear temperature profile is a fixed point of the time step.
        let (rows, width) = (9, 7);
        let old: Vec<f64> = (0..rows * width).map(|n| (n / width + 3 * (n % width)) as f64).collect();
        let mut new = old.clone();
        step(&old, &mut new[width..(rows - 1) * width], width);
        assert_eq!(new, old);
    }
}

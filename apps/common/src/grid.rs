//! Grid of values that a loop computes: parsing of its size from a command line, and comparison with the grid of the serial loop.

use armature::loops::Shape;
use std::time::Instant;

/// Maximum number of values of a grid: 16 GiB of `f64`.
const MAX_VALUES: u64 = 1 << 31;
/// Minimum number of rows and of columns of a grid: two fixed edges, and a computed row or column between them.
const MIN_SIDE: u64 = 3;

/// Parses the shape of a grid on a command line: `N` or `ROWSxCOLUMNS`. Accepted grids have at least one value inside the fixed edges.
///
/// # Errors
/// The error names the expected form, if the text has another form or the grid is too small or too large.
pub fn parse_shape(text: &str) -> Result<Shape, String> {
    let (rows, columns) = text.split_once('x').unwrap_or((text, text));
    let shape = rows.parse().ok().zip(columns.parse().ok()).map(|(rows, columns)| Shape { rows, columns });
    shape
        .filter(|shape| shape.rows.min(shape.columns as u64) >= MIN_SIDE)
        .filter(|shape| shape.rows.checked_mul(shape.columns as u64).is_some_and(|n| n <= MAX_VALUES))
        .ok_or_else(|| {
            format!(
                "expected N or ROWSxCOLUMNS, each at least {MIN_SIDE} with its two fixed edges, and {MAX_VALUES} values at \
                 most: 2000 or 500x800"
            )
        })
}

/// Compares `grid` with the grid of the serial loop, bit by bit, and returns the time of the serial loop in seconds. `fill` sets the initial values
/// of the row with the given number. `serial` executes the serial loop on a grid with initial values and returns the final grid.
///
/// # Errors
/// The error contains the position and values of the first difference.
pub fn compare(
    shape: Shape,
    grid: &[f64],
    fill: impl Fn(u64, &mut [f64]),
    serial: impl FnOnce(Vec<f64>) -> Vec<f64>,
) -> Result<f64, String> {
    let mut start = vec![0.0; shape.rows as usize * shape.columns];
    (0..).zip(start.chunks_exact_mut(shape.columns.max(1))).for_each(|(row, values)| fill(row, values));
    let clock = Instant::now();
    let serial = serial(start);
    let seconds = clock.elapsed().as_secs_f64();
    same_values("grid", grid, &serial, shape.columns)?;
    Ok(seconds)
}

/// Compares values with those of the serial loop, bit by bit. `what` names the values in the error; a row has `columns` values.
///
/// # Errors
/// The error contains the position and values of the first difference, or both numbers of values if they differ.
pub fn same_values(what: &str, values: &[f64], serial: &[f64], columns: usize) -> Result<(), String> {
    let differs = |(a, b): (&f64, &f64)| a.to_bits() != b.to_bits();
    match values.iter().zip(serial).position(differs) {
        Some(at) => {
            let (row, column) = (at / columns, at % columns);
            Err(format!("row {row}, column {column}: {} instead of {}", values[at], serial[at]))
        }
        None if values.len() != serial.len() => {
            Err(format!("the {what} has {} values instead of {}", values.len(), serial.len()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_are_read() {
        assert_eq!(parse_shape("1000"), Ok(Shape { rows: 1000, columns: 1000 }));
        assert_eq!(parse_shape("3x4"), Ok(Shape { rows: 3, columns: 4 }));
        assert_eq!(parse_shape("30x20"), Ok(Shape { rows: 30, columns: 20 }));
        for text in ["3x", "x", "99999x99999", "-1", "3x4x5", "0", "2", "2x2", "2x9", "9x2", "0x0", "3x0"] {
            assert!(parse_shape(text).unwrap_err().contains("expected N or ROWSxCOLUMNS"), "{text}");
        }
    }

    #[test]
    fn comparison_finds_a_single_wrong_bit() {
        let grid = [1.0, 0.0, 3.0, 4.0];
        assert_eq!(same_values("grid", &grid, &grid, 2), Ok(()));
        let text = same_values("grid", &grid, &[1.0, -0.0, 3.0, 4.0], 2).unwrap_err();
        assert_eq!(text, "row 0, column 1: 0 instead of -0");
        let text = same_values("grid", &grid, &grid[..3], 2).unwrap_err();
        assert_eq!(text, "the grid has 4 values instead of 3");
    }

    #[test]
    fn serial_loop_starts_from_the_initial_rows() {
        let shape = Shape { rows: 2, columns: 3 };
        let fill = |row, values: &mut [f64]| values.fill(row as f64 + 0.5);
        let twice = |grid: Vec<f64>| grid.iter().map(|x| 2.0 * x).collect();
        assert!(compare(shape, &[1.0, 1.0, 1.0, 3.0, 3.0, 3.0], fill, twice).is_ok());
        let error = compare(shape, &[1.0, 1.0, 1.0, 3.0, 3.5, 3.0], fill, twice).unwrap_err();
        assert_eq!(error, "row 1, column 1: 3.5 instead of 3");
        let nothing = Shape { rows: 3, columns: 0 };
        assert!(compare(nothing, &[], fill, twice).is_ok());
    }
}

//! Size and edges of a grid.

use std::ops::Range;

use crate::error::{Error, ErrorKind, Result};

/// Rows and columns of a whole grid, including its fixed edges.
///
/// All rows except the first and the last are the loop's units: unit `u` is row `u + 1`. A sweep computes all columns except the first and the last.
/// A grid with [periodic rows](super::StencilLoop::periodic) and a [table](super::Table) have no edges: each row is a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Number of rows.
    pub rows: u64,
    /// Number of columns.
    pub columns: usize,
}

impl Shape {
    /// Returns the number of computed rows.
    pub fn units(&self) -> u64 {
        self.rows.saturating_sub(2)
    }

    /// Returns the range of columns that a sweep computes: all but the first and the last.
    pub fn inner(&self) -> Range<usize> {
        1..self.columns.saturating_sub(1).max(1)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.units() == 0 || self.inner().is_empty()
    }

    /// Checks that the size in bytes of the grid, whose values have `value` bytes each, can be represented.
    pub(super) fn check(&self, value: usize) -> Result<()> {
        let bytes = usize::try_from(self.rows)
            .ok()
            .and_then(|rows| rows.checked_add(2)?.checked_mul(self.columns))
            .and_then(|values| values.checked_mul(value))
            .filter(|bytes| *bytes <= isize::MAX as usize);
        if value == 0 || bytes.is_none() {
            let text = format!(
                "a grid of {} rows and {} columns of {value} bytes each does not fit into memory: expected values of at \
                 least one byte, and less than 2^63 bytes in total",
                self.rows, self.columns
            );
            return Err(Error::new(ErrorKind::Config, text));
        }
        Ok(())
    }
}

/// Kind of rows above the first and below the last computed row of a grid.
///
/// Inside the framework, rows are counted from the row above unit 0, even if that row is not part of the grid, so that unit `u` is row `u + 1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Edges {
    /// The first and the last row of the grid are constant and not computed.
    Fixed,
    /// The rows form a ring of this number of rows: the last row is above the first.
    Periodic(u64),
    /// Values above the first row that are not part of the grid, as in a table: user code supplies them, like those to the left of the first column.
    /// Nothing lies below the last row.
    Above,
}

impl Edges {
    pub(super) fn units(self, shape: Shape) -> u64 {
        match self {
            Edges::Fixed => shape.units(),
            Edges::Periodic(_) | Edges::Above => shape.rows,
        }
    }

    pub(super) fn is_empty(self, shape: Shape) -> bool {
        match self {
            Edges::Fixed => shape.is_empty(),
            Edges::Periodic(_) | Edges::Above => shape.rows == 0 || shape.columns == 0,
        }
    }

    pub(super) fn first(self) -> u64 {
        match self {
            Edges::Fixed => 1,
            Edges::Periodic(_) | Edges::Above => 0,
        }
    }

    /// Converts the number of a row, counted from the row above unit 0, to its number in the whole grid.
    pub(super) fn number(self, row: u64) -> u64 {
        match self {
            Edges::Fixed => row,
            Edges::Periodic(rows) => (row + rows - 1) % rows,
            // The row above a table has no number in the whole grid, so the subtraction wraps around.
            Edges::Above => row.wrapping_sub(1),
        }
    }

    /// Describes rows and columns for error messages. `rows` are row numbers in the whole grid; `columns` are indices into a row as a rank stores it,
    /// with `width` columns.
    pub(super) fn place(self, sweep: u64, rows: Range<u64>, columns: &Range<usize>, width: usize) -> String {
        match self {
            // In a table, column 0 of the stored columns is to the left of the panel that the sweep fills.
            Edges::Above => {
                let first = sweep * (width as u64 - 1);
                let column = |column: usize| first + column as u64 - 1;
                format!("rows {rows:?}, columns {:?}", column(columns.start)..column(columns.end))
            }
            Edges::Fixed | Edges::Periodic(_) => format!("sweep {sweep}, rows {rows:?}, columns {columns:?}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periodic_rows_have_no_edges() {
        let shape = Shape { rows: 3, columns: 1 };
        let (fixed, ring) = (Edges::Fixed, Edges::Periodic(3));
        assert_eq!((fixed.units(shape), fixed.first(), fixed.is_empty(shape)), (1, 1, true));
        assert_eq!((ring.units(shape), ring.first(), ring.is_empty(shape)), (3, 0, false));
        let numbers = |edges: Edges| (0..5).map(|row| edges.number(row)).collect::<Vec<_>>();
        assert_eq!(numbers(fixed), [0, 1, 2, 3, 4]);
        assert_eq!(numbers(ring), [2, 0, 1, 2, 0]);
    }

    #[test]
    fn edges_are_not_computed() {
        let shape = Shape { rows: 5, columns: 7 };
        assert_eq!((shape.units(), shape.inner(), shape.is_empty()), (3, 1..6, false));
        for (rows, columns) in [(0, 0), (2, 9), (9, 2), (1, 1), (9, 0)] {
            let shape = Shape { rows, columns };
            assert!(shape.is_empty() && shape.check(8).is_ok(), "{shape:?}");
        }
        assert!(Shape { rows: u64::MAX, columns: 2 }.check(8).is_err());
        assert!(Shape { rows: 3, columns: 2 }.check(0).is_err());
    }
}

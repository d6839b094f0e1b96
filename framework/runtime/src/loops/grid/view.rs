//! What user code sees of a rank's rows.

use std::fmt;

/// Neighbouring rows of a grid to be computed in place, as one piece of memory: the first and the last are those of
/// neighbours, or fixed edges, and are only read.
///
/// It looks like a smaller grid with the edges that the whole grid has, so that the serial loop can be called with it.
pub struct Grid<'g, T> {
    /// Row by row.
    pub values: &'g mut [T],
    /// Columns, and so the distance of values that lie below each other.
    pub width: usize,
    /// Where in the whole grid the first of these rows is.
    pub first: u64,
}

impl<T> Grid<'_, T> {
    /// The number of rows, the first and the last included.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }
}

/// Neighbouring rows of a grid as they were before a step; see [`Grid`]. In a grid with periodic rows the last row is above the first.
#[derive(Clone, Copy)]
pub struct OldGrid<'g, T> {
    /// Row by row.
    pub values: &'g [T],
    /// Columns, and so the distance of values that lie below each other.
    pub width: usize,
    /// Where in the whole grid the first of these rows is.
    pub first: u64,
}

impl<T> OldGrid<'_, T> {
    /// The number of rows, the first and the last included.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }
}

fn show(f: &mut fmt::Formatter<'_>, name: &str, rows: usize, width: usize, first: u64) -> fmt::Result {
    f.debug_struct(name)
        .field("rows", &rows)
        .field("width", &width)
        .field("first", &first)
        .finish_non_exhaustive()
}

impl<T> fmt::Debug for Grid<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, "Grid", self.rows(), self.width, self.first)
    }
}

impl<T> fmt::Debug for OldGrid<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        show(f, "OldGrid", self.rows(), self.width, self.first)
    }
}

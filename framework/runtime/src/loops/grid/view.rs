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
    /// Where in the whole grid the first of these rows is, which lies above those to be computed; see [`row_of`](Grid::row_of).
    pub first: u64,
}

impl<T> Grid<'_, T> {
    /// The number of rows, the first and the last included.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// The number in the whole grid of row `row` of these rows: row 0 lies above those to be computed, which begin with row 1.
    pub fn row_of(&self, row: usize) -> u64 {
        self.first + row as u64
    }
}

/// Neighbouring rows of a grid as they were before a step; see [`Grid`]. In a grid with periodic rows the last row is above the first.
#[derive(Clone, Copy)]
pub struct OldGrid<'g, T> {
    /// Row by row.
    pub values: &'g [T],
    /// Columns, and so the distance of values that lie below each other.
    pub width: usize,
    /// Where in the whole grid the first of these rows is, which lies above those to be computed; see [`row_of`](OldGrid::row_of).
    pub first: u64,
    /// Rows of the whole grid, where they are a ring.
    pub(super) ring: Option<u64>,
}

impl<T> OldGrid<'_, T> {
    /// The number of rows, the first and the last included.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// The number in the whole grid of row `row` of these rows: row 0 lies above those to be computed, so that the first of the new
    /// rows is row 1 here, for whatever depends on where a row is, such as obstacles.
    ///
    /// ```
    /// # use armature::BoxError;
    /// # use armature::loops::{OldGrid, Shape, Stencil, StencilLoop};
    /// # struct Numbers;
    /// # impl Stencil for Numbers {
    /// #     type Value = u64;
    /// #     fn row(&mut self, _: u64, _: &mut [u64]) -> Result<(), BoxError> { Ok(()) }
    /// fn step(&mut self, old: OldGrid<'_, u64>, new: &mut [u64]) -> Result<(), BoxError> {
    ///     for (row, new) in (1..).zip(new.chunks_exact_mut(old.width)) {
    ///         new.fill(old.row_of(row));
    ///     }
    ///     Ok(())
    /// }
    /// # }
    /// # let config = armature::Config::new().ranks(2);
    /// # let grid = armature::run(&config, |session| {
    /// #     let mut numbers = StencilLoop::new("numbers", Shape { rows: 6, columns: 3 }, Numbers);
    /// #     numbers.run(session, 1)?;
    /// #     Ok(numbers.collect(session)?)
    /// # })?;
    /// # assert_eq!(grid.unwrap()[3..15], [1, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]);
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn row_of(&self, row: usize) -> u64 {
        let number = self.first + row as u64;
        self.ring.map_or(number, |rows| number % rows)
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

//! Views of a rank's rows of a grid, as user code gets them.

use std::fmt;

/// Neighbouring rows of a grid, contiguous in memory, that user code computes in place. The first and the last row belong to neighbour ranks or are
/// fixed edges, and are only read.
///
/// The view has the form of a smaller grid with edges like those of the whole grid, so that the serial loop can be called with it.
pub struct Grid<'g, T> {
    /// Values of the rows, one row after the other.
    pub values: &'g mut [T],
    /// Number of columns, which is also the distance between a value and the value below it.
    pub width: usize,
    /// Row number, in the whole grid, of the first row in `values`, which is above the rows to compute; see [`row_of`](Grid::row_of).
    pub first: u64,
}

impl<T> Grid<'_, T> {
    /// Returns the number of rows, including the first and the last.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Returns the number in the whole grid of row `row` of this view. Row 0 is above the rows to compute, which begin with row 1.
    ///
    /// ```
    /// # use std::ops::Range;
    /// # use armature::BoxError;
    /// # use armature::loops::{DoAcross, DoAcrossLoop, Grid, Shape};
    /// # struct Numbers;
    /// # impl DoAcross for Numbers {
    /// #     type Value = u64;
    /// #     fn row(&mut self, _: u64, _: &mut [u64]) -> Result<(), BoxError> { Ok(()) }
    /// fn sweep(&mut self, grid: Grid<'_, u64>, columns: Range<usize>) -> Result<(), BoxError> {
    ///     for row in 1..grid.rows() - 1 {
    ///         let number = grid.row_of(row);
    ///         grid.values[row * grid.width..][columns.clone()].fill(number);
    ///     }
    ///     Ok(())
    /// }
    /// # }
    /// # let config = armature::Config::new().ranks(2);
    /// # let grid = armature::run(&config, |session| {
    /// #     let mut numbers = DoAcrossLoop::new("numbers", Shape { rows: 6, columns: 4 }, Numbers);
    /// #     numbers.run(session, 1)?;
    /// #     Ok(numbers.collect(session)?)
    /// # })?;
    /// # let grid = grid.unwrap();
    /// # assert_eq!([1, 2, 3, 4].map(|row: usize| grid[row * 4 + 1..row * 4 + 3].to_vec()), [1, 2, 3, 4].map(|row| vec![row; 2]));
    /// # Ok::<(), armature::Error>(())
    /// ```
    pub fn row_of(&self, row: usize) -> u64 {
        self.first + row as u64
    }
}

/// Neighbouring rows of a grid as they were before a step; see [`Grid`]. In a grid with periodic rows the last row of the grid is above the first.
#[derive(Clone, Copy)]
pub struct OldGrid<'g, T> {
    /// Values of the rows, one row after the other.
    pub values: &'g [T],
    /// Number of columns, which is also the distance between a value and the value below it.
    pub width: usize,
    /// Row number, in the whole grid, of the first row in `values`, which is above the rows to compute; see [`row_of`](OldGrid::row_of).
    pub first: u64,
    /// Number of rows of the whole grid, if its rows are periodic (a ring).
    pub(super) ring: Option<u64>,
}

impl<T> OldGrid<'_, T> {
    /// Returns the number of rows, including the first and the last.
    pub fn rows(&self) -> usize {
        self.values.len().checked_div(self.width).unwrap_or(0)
    }

    /// Returns the number in the whole grid of row `row` of this view. Row 0 of the view is above the rows to compute, so the first of the new rows
    /// is row 1 of the view. Use the number for anything that depends on the position of a row, such as obstacles.
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

//! Tables that are filled once, from the top left: the traits and views for user code.

use std::fmt;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::doacross::DoAcross;
use super::findings::Findings;
use super::view::Grid;
use crate::error::BoxError;

/// A table that is filled once. Each value depends on the values above, to the left, and above to the left: dynamic programming.
///
/// The rows are the units of the loop. Columns are filled in blocks, the *panels*, and a rank stores only one panel of its rows, so a table may be
/// far larger than the memory of all ranks. Between two panels, rows can move from one rank to another. Results derived from the table, such as its
/// largest value, are gathered by [`fill`](Table::fill) in the loop's body, of which each rank has its own.
pub trait Table: Send {
    /// Type of the values of the table: plain data.
    type Value: Pod + Send;

    /// Returns the value above the first row in this column; `None` is the corner, above and to the left of all values. The default is zero.
    fn above(&mut self, column: Option<u64>) -> Self::Value {
        let _ = column;
        Zeroable::zeroed()
    }

    /// Returns the value to the left of the first value of this row. The default is zero.
    fn left(&mut self, row: u64) -> Self::Value {
        let _ = row;
        Zeroable::zeroed()
    }

    /// Fills some columns of some rows. Each value is filled once.
    ///
    /// The computation of a value must not depend on which other values are in the same call.
    ///
    /// # Errors
    /// Any error ends the job.
    fn fill(&mut self, cells: Cells<'_, Self::Value>) -> Result<(), BoxError>;

    /// Returns the results gathered from this rank's rows so far as bytes, for a [checkpoint](super::TableLoop::checkpoint). It is called after each
    /// panel if the loop has a checkpoint.
    ///
    /// `None`, the default, means that a job cannot resume from the results, and a loop with a checkpoint is then refused. A body that gathers
    /// nothing returns `Some(Vec::new())`.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Adds the results that a rank of the earlier job has [saved](Table::save) to those of this rank. It is called once for each rank of the earlier
    /// job, on any rank of this job: several times on some ranks, and never on others.
    ///
    /// # Errors
    /// An error ends the job. The default implementation accepts only empty results.
    fn restore(&mut self, saved: &[u8]) -> Result<(), BoxError> {
        if saved.is_empty() {
            return Ok(());
        }
        Err(format!("the table received {} bytes of a checkpoint but has no `restore`", saved.len()).into())
    }
}

/// Neighbouring columns of neighbouring rows of a [`Table`], to be filled row by row.
pub struct Cells<'c, T> {
    /// Values of the stored rows, row by row: also of the row above the rows to fill, and of columns that this call does not fill.
    values: &'c mut [T],
    width: usize,
    /// Column, within the stored rows, of the value to the left of the first value to fill.
    left: usize,
    rows: Range<u64>,
    columns: Range<u64>,
}

/// A row of [`Cells`], and the values that it depends on.
pub struct Line<'l, T> {
    /// Values of the row above, beginning one column before the first column to fill: one value more than there are columns. `above[k]` is above and
    /// to the left of `values[k]`, and `above[k + 1]` is above it.
    pub above: &'l [T],
    /// Value to the left of the first value to fill.
    pub left: T,
    /// Values of the row to fill, one for each column.
    pub values: &'l mut [T],
}

impl<T: Pod> Cells<'_, T> {
    /// Returns the numbers in the table of the rows to fill.
    pub fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Returns the numbers in the table of the columns to fill.
    pub fn columns(&self) -> Range<u64> {
        self.columns.clone()
    }

    /// Returns a row to fill. Rows are filled in ascending order, because each row depends on the row above.
    ///
    /// # Panics
    /// If `row` is not one of [`rows`](Cells::rows).
    pub fn line(&mut self, row: u64) -> Line<'_, T> {
        assert!(self.rows.contains(&row), "row {row} is not in {:?}", self.rows);
        let at = ((row - self.rows.start) as usize + 1) * self.width + self.left;
        let count = (self.columns.end - self.columns.start) as usize;
        let (before, from) = self.values.split_at_mut(at);
        let above = &before[at - self.width..][..count + 1];
        Line { above, left: from[0], values: &mut from[1..count + 1] }
    }
}

impl<T> fmt::Debug for Cells<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut cells = f.debug_struct("Cells");
        cells.field("rows", &self.rows).field("columns", &self.columns).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for Line<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Line").field("columns", &self.values.len()).finish_non_exhaustive()
    }
}

/// A table in the form of a DOACROSS loop. Each sweep fills a panel (block of columns). A rank also stores the column to the left of the panel, from
/// which the panel's values are computed.
pub(super) struct Panels<U> {
    pub(super) user: U,
    columns: u64,
    /// Number of the present panel of columns, from 0. `width` is the number of columns of a panel.
    panel: u64,
    width: usize,
    /// End (exclusive) of the filled columns of the present panel, as an index into a stored row; 0 if no column of the panel has been filled.
    until: usize,
}

impl<U: Table> Panels<U> {
    pub(super) fn new(user: U, columns: usize) -> Self {
        Panels { user, columns: columns as u64, panel: 0, width: 0, until: 0 }
    }

    /// Begins to fill the table from the first panel, with `width` columns per panel. Returns the number of panels.
    pub(super) fn begin(&mut self, width: usize) -> u64 {
        (self.panel, self.width, self.until) = (0, width, 0);
        self.columns.div_ceil(width.max(1) as u64)
    }

    /// Continues after `panels` panels of columns that an earlier job has filled. `found` are results of user code (findings) that ranks of that job
    /// had saved.
    pub(super) fn resume(&mut self, panels: u64, found: Vec<Vec<u8>>) -> Result<(), BoxError> {
        self.panel = panels;
        found.iter().try_for_each(|saved| self.user.restore(saved))
    }

    /// Called when all rows of the rank are filled in a strip of columns. At the end of a panel, saves the results of user code (findings) for
    /// checkpoints.
    pub(super) fn end_strip(&mut self, findings: Option<&Findings>) -> Result<(), BoxError> {
        if self.until < self.width + 1 {
            return Ok(());
        }
        (self.panel, self.until) = (self.panel + 1, 0);
        if let Some(findings) = findings {
            findings.put(
                self.user
                    .save()
                    .ok_or("`save` of the table returned `None`, although it returned data before")?,
            );
        }
        Ok(())
    }
}

impl<U: Table> DoAcross for Panels<U> {
    type Value = U::Value;

    fn row(&mut self, _: u64, _: &mut [U::Value]) -> Result<(), BoxError> {
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, U::Value>, columns: Range<usize>) -> Result<(), BoxError> {
        self.until = columns.end;
        // Number of the table's column that is stored as column 1; column 0 of the stored columns holds the values to the left of
        // the present panel.
        let first = self.panel * self.width as u64;
        let filled = first + columns.start as u64 - 1..self.columns.min(first + columns.end as u64 - 1);
        // The last panel may have fewer columns than the others, so a strip may contain no column to fill.
        if filled.is_empty() {
            return Ok(());
        }
        let rows = grid.first.wrapping_add(1)..grid.first.wrapping_add(grid.rows() as u64 - 1);
        let Grid { values, width, .. } = grid;
        let is_first_strip = columns.start == 1;
        if is_first_strip {
            for (row, values) in rows.clone().zip(values.chunks_exact_mut(width).skip(1)) {
                values[0] = if first == 0 { self.user.left(row) } else { values[width - 1] };
            }
        }
        if rows.start == 0 {
            let begin = if is_first_strip { 0 } else { columns.start };
            for (column, value) in (first + begin as u64..=filled.end).zip(&mut values[begin..]) {
                *value = self.user.above(column.checked_sub(1));
            }
        }
        self.user.fill(Cells { values, width, left: columns.start - 1, rows, columns: filled })
    }
}

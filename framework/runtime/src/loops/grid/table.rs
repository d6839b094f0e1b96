//! Tables that are filled once, from the top left: what user code sees of them.

use std::fmt;
use std::ops::Range;

use bytemuck::{Pod, Zeroable};

use super::doacross::DoAcross;
use super::findings::Findings;
use super::view::Grid;
use crate::error::BoxError;

/// A table that is filled once, each value from those above, to the left, and above to the left: dynamic programming.
///
/// The rows are the units of the loop. Columns are done in *panels*, and a rank keeps of its rows no more than a panel, so that a table may
/// be far larger than the memory of all ranks. Rows move between two panels. What is wanted of the table, such as its largest value,
/// is gathered by [`fill`](Table::fill) in the loop's body, of which each rank has its own.
pub trait Table: Send {
    /// A value of the table: plain data.
    type Value: Pod + Send;

    /// What lies above the first row in this column; `None` is the corner, above and to the left of all values. Zero, unless it is written.
    fn above(&mut self, column: Option<u64>) -> Self::Value {
        let _ = column;
        Zeroable::zeroed()
    }

    /// What lies to the left of the first value of this row. Zero, unless it is written.
    fn left(&mut self, row: u64) -> Self::Value {
        let _ = row;
        Zeroable::zeroed()
    }

    /// Fills some columns of some rows. Each value is asked for once.
    ///
    /// What it does for a value must not depend on which others are in the same call, or the result does.
    ///
    /// # Errors
    /// Any error ends the job.
    fn fill(&mut self, cells: Cells<'_, Self::Value>) -> Result<(), BoxError>;

    /// What has come of this rank's rows so far as bytes, for a [checkpoint](super::TableLoop::checkpoint): it is asked for after each panel, where
    /// the loop has one.
    ///
    /// `None`, the default, says that a job cannot go on from them: a checkpoint is refused then. A loop's body that gathers nothing
    /// returns `Some(Vec::new())`.
    fn save(&self) -> Option<Vec<u8>> {
        None
    }

    /// Takes in what a rank of the job before has [saved](Table::save), beside what there is already. It is called once for each of these ranks, on
    /// whichever rank of this job: for some of them several times, for others never.
    ///
    /// # Errors
    /// An error ends the job. The default refuses all but nothing.
    fn restore(&mut self, saved: &[u8]) -> Result<(), BoxError> {
        if saved.is_empty() {
            return Ok(());
        }
        Err(format!("the table was handed {} bytes of a checkpoint but has no `restore`", saved.len()).into())
    }
}

/// Some neighbouring columns of some neighbouring rows of a [`Table`], to be filled row by row.
pub struct Cells<'c, T> {
    /// Row by row, with one above and with columns that are not of these.
    values: &'c mut [T],
    width: usize,
    /// Where in a row the value to the left of the first is.
    left: usize,
    rows: Range<u64>,
    columns: Range<u64>,
}

/// A row of [`Cells`], and what it is made of.
pub struct Line<'l, T> {
    /// The row above, from the column before the first on: one value more than there are columns. `above[k]` is above to the left of `values[k]`,
    /// and `above[k + 1]` above it.
    pub above: &'l [T],
    /// What is to the left of the first value.
    pub left: T,
    /// To be filled: a value for each column.
    pub values: &'l mut [T],
}

impl<T: Pod> Cells<'_, T> {
    /// Which rows of the table these are.
    pub fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    /// Which columns of the table these are.
    pub fn columns(&self) -> Range<u64> {
        self.columns.clone()
    }

    /// A row of them. Rows are filled in ascending order, as each looks at the one above.
    ///
    /// # Panics
    /// If it is none of [`rows`](Cells::rows).
    pub fn line(&mut self, row: u64) -> Line<'_, T> {
        assert!(self.rows.contains(&row), "row {row} is none of {:?}", self.rows);
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

/// A table as a loop of sweeps: each fills a panel, whose columns come after one that holds what is to the left of them.
pub(super) struct Panels<U> {
    pub(super) user: U,
    /// Columns of the table, …
    columns: u64,
    /// … of the panel that is filled, which is the whole number of panels before it, …
    panel: u64,
    width: usize,
    /// … and the end of those that have been filled of it, where it is known.
    until: usize,
}

impl<U: Table> Panels<U> {
    pub(super) fn new(user: U, columns: usize) -> Self {
        Panels { user, columns: columns as u64, panel: 0, width: 0, until: 0 }
    }

    /// The table is filled from the first panel on; each has `width` columns. Returns how many there are.
    pub(super) fn begin(&mut self, width: usize) -> u64 {
        (self.panel, self.width, self.until) = (0, width, 0);
        self.columns.div_ceil(width.max(1) as u64)
    }

    /// So many panels were filled by an earlier job, of which this rank takes over what some ranks had found.
    pub(super) fn resume(&mut self, panels: u64, found: Vec<Vec<u8>>) -> Result<(), BoxError> {
        self.panel = panels;
        found.iter().try_for_each(|saved| self.user.restore(saved))
    }

    /// A strip of all rows is filled; behind the last one of a panel, what has been found goes where checkpoints are made of it.
    pub(super) fn end_strip(&mut self, findings: Option<&Findings>) -> Result<(), BoxError> {
        if self.until < self.width + 1 {
            return Ok(());
        }
        (self.panel, self.until) = (self.panel + 1, 0);
        if let Some(findings) = findings {
            findings.put(self.user.save().ok_or("`save` of the table gave nothing, as it had before")?);
        }
        Ok(())
    }
}

impl<U: Table> DoAcross for Panels<U> {
    type Value = U::Value;

    /// Nothing is known of a row before it is filled.
    fn row(&mut self, _: u64, _: &mut [U::Value]) -> Result<(), BoxError> {
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, U::Value>, columns: Range<usize>) -> Result<(), BoxError> {
        self.until = columns.end;
        // The column of the table that the second one of these is.
        let first = self.panel * self.width as u64;
        let filled = first + columns.start as u64 - 1..self.columns.min(first + columns.end as u64 - 1);
        // The last panel may have fewer columns.
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

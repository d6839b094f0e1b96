//! Rows of a rank, with a halo row of each neighbour.

use std::ops::Range;

use bytemuck::Pod;

use super::huge_pages::HugePages;
use super::shape::Edges;
use super::view::{Grid, OldGrid};
use crate::error::Result;
use crate::persist::snapshot::CheckpointPiece;

/// When a rank's rows are copied to new memory, there is space for more rows before and after them: for the number of rows divided by this constant,
/// and at least for as many rows as have just arrived. Rows move back and forth between ranks, so the space is used; until then the system provides
/// no memory for it.
const ROOM: usize = 2;

/// Approximate size in bytes of the pieces into which a rank's rows are divided for a checkpoint.
const PIECE: usize = 1 << 20;

/// Consecutive rows of the whole grid in one piece of memory, between two *halo rows*: a row above and a row below that belong to neighbouring ranks
/// or are fixed edges.
///
/// Unused memory before and after the rows allows rows to be removed without copying the others, and mostly also rows to be added.
#[derive(Debug)]
pub(super) struct LocalRows<T> {
    width: usize,
    rows: Range<u64>,
    edges: Edges,
    memory: HugePages<T>,
    /// Number of unused rows in the memory before the upper halo row.
    reserve: usize,
}

impl<T: Pod> LocalRows<T> {
    /// Creates the rows `rows` of a grid with fixed edges, and their halo rows; `make` fills each row.
    pub(super) fn create(
        width: usize,
        rows: Range<u64>,
        mut make: impl FnMut(u64, &mut [T]) -> Result<()>,
    ) -> Result<Self> {
        let count = (rows.end - rows.start) as usize + 2;
        let reserve = count / ROOM;
        let mut memory = HugePages::zeroed((count + 2 * reserve) * width);
        if width > 0 {
            let all = memory[reserve * width..(reserve + count) * width].chunks_exact_mut(width);
            for (row, values) in (rows.start - 1..).zip(all) {
                make(row, values)?;
            }
        }
        Ok(LocalRows { width, rows, edges: Edges::Fixed, memory, reserve })
    }

    /// Changes the kind of rows at the ends of the whole grid to `edges`.
    pub(super) fn between(self, edges: Edges) -> Self {
        LocalRows { edges, ..self }
    }

    /// Returns the rows with their values, which are lent to user code. `self` keeps only the numbers of the rows.
    #[inline]
    pub(super) fn lend(&mut self) -> Self {
        let without = LocalRows { rows: self.rows.clone(), memory: HugePages::none(), ..*self };
        std::mem::replace(self, without)
    }

    pub(super) fn rows(&self) -> Range<u64> {
        self.rows.clone()
    }

    pub(super) fn edges(&self) -> Edges {
        self.edges
    }

    /// Returns the numbers in the whole grid of some of this rank's rows; `rows` is counted as in [`grid_of`](LocalRows::grid_of).
    pub(super) fn numbers(&self, rows: &Range<usize>) -> Range<u64> {
        let first = self.edges.number(self.rows.start + rows.start as u64);
        first..first + rows.len() as u64
    }

    pub(super) fn width(&self) -> usize {
        self.width
    }

    pub(super) fn len(&self) -> usize {
        (self.rows.end - self.rows.start) as usize
    }

    /// Returns the position of row `row` of this rank in its memory, as a range of values; number 0 is the upper halo row.
    fn position(&self, row: usize) -> Range<usize> {
        let begin = (self.reserve + row) * self.width;
        begin..begin + self.width
    }

    /// Returns the position of some rows of this rank in its memory, as a range of values; number 0 in `rows` is the upper halo row.
    fn several(&self, rows: Range<usize>) -> Range<usize> {
        (self.reserve + rows.start) * self.width..(self.reserve + rows.end) * self.width
    }

    pub(super) fn bytes(&self) -> usize {
        (self.len() + 2) * self.width * size_of::<T>()
    }

    #[inline]
    pub(super) fn grid(&mut self) -> Grid<'_, T> {
        self.grid_of(&(0..self.len()))
    }

    /// Returns some of this rank's rows for writing, with the row above and the row below them. `rows` are their numbers, counted from 0 for the
    /// first row of this rank.
    #[inline]
    pub(super) fn grid_of(&mut self, rows: &Range<usize>) -> Grid<'_, T> {
        let position = self.several(rows.start..rows.end + 2);
        let first = self.edges.number(self.rows.start - 1 + rows.start as u64);
        Grid { values: &mut self.memory[position], width: self.width, first }
    }

    /// Returns some of this rank's rows with the row above and the row below them; `rows` is counted as in [`grid_of`](LocalRows::grid_of).
    pub(super) fn around(&self, rows: &Range<usize>) -> OldGrid<'_, T> {
        let position = self.several(rows.start..rows.end + 2);
        OldGrid {
            values: &self.memory[position],
            width: self.width,
            first: self.edges.number(self.rows.start - 1 + rows.start as u64),
            ring: if let Edges::Periodic(rows) = self.edges { Some(rows) } else { None },
        }
    }

    /// Returns some of this rank's rows for writing; `rows` is counted as in [`grid_of`](LocalRows::grid_of).
    pub(super) fn band(&mut self, rows: &Range<usize>) -> &mut [T] {
        let position = self.several(rows.start + 1..rows.end + 1);
        &mut self.memory[position]
    }

    /// Returns the values of all rows of this rank without the halo rows, or with the lower halo row if `with_lower` is true.
    pub(super) fn all(&self, with_lower: bool) -> &[T] {
        &self.memory[self.several(1..self.len() + 1 + usize::from(with_lower))]
    }

    /// Returns the rows without the halo rows for a checkpoint. They are divided into pieces of moderate size, so that a rank that resumes with
    /// other rows need not read all of them.
    pub(super) fn pieces(&self) -> Vec<CheckpointPiece> {
        let rows = (PIECE / (self.width * size_of::<T>()).max(1)).max(1);
        let all = self.all(false).chunks(rows * self.width.max(1));
        let mut first = self.rows.start - 1;
        all.map(|values| {
            let count = (values.len() / self.width.max(1)) as u64;
            first += count;
            (first - count, count, bytemuck::cast_slice(values).to_vec())
        })
        .collect()
    }

    /// Returns the values of some rows of this rank; number 0 in `rows` is the upper halo row.
    #[inline]
    pub(super) fn some(&self, rows: Range<usize>) -> &[T] {
        &self.memory[self.several(rows)]
    }

    pub(super) fn upper(&mut self) -> &mut [T] {
        let position = self.position(0);
        &mut self.memory[position]
    }

    pub(super) fn lower(&mut self) -> &mut [T] {
        let position = self.position(self.len() + 1);
        &mut self.memory[position]
    }

    /// Copies the last row to the upper halo row and the first row to the lower one, for a rank that has all rows of a grid with periodic rows.
    pub(super) fn wrap(&mut self) {
        let (upper, lower) = (self.position(0), self.position(self.len() + 1));
        let (first, last) = (self.position(1), self.position(self.len()));
        self.memory.copy_within(last, upper.start);
        self.memory.copy_within(first, lower.start);
    }

    /// Returns the values of row `row` of this rank; number 0 is the upper halo row.
    pub(super) fn row(&self, row: usize) -> &[T] {
        &self.memory[self.position(row)]
    }

    pub(super) fn first(&self) -> &[T] {
        self.row(1)
    }

    pub(super) fn last(&self) -> &[T] {
        self.row(self.len())
    }

    /// Removes the first `rows` rows and returns their values. The last of them becomes the upper halo row.
    pub(super) fn take_front(&mut self, rows: usize) -> Vec<T> {
        let taken = self.memory[self.several(1..rows + 1)].to_vec();
        self.rows.start += rows as u64;
        self.reserve += rows;
        taken
    }

    /// Removes the last `rows` rows and returns their values. The first of them becomes the lower halo row.
    pub(super) fn take_back(&mut self, rows: usize) -> Vec<T> {
        let len = self.len();
        let taken = self.memory[self.several(len + 1 - rows..len + 1)].to_vec();
        self.rows.end -= rows as u64;
        taken
    }

    /// Adds rows before the first row. The content of the upper halo row is undefined afterwards.
    pub(super) fn append_front(&mut self, values: &[T]) {
        let rows = values.len() / self.width;
        if rows > self.reserve {
            self.make_room(rows, 0);
        }
        self.reserve -= rows;
        self.rows.start -= rows as u64;
        let position = self.several(1..rows + 1);
        self.memory[position].copy_from_slice(values);
    }

    /// Adds rows after the last row. The content of the lower halo row is undefined afterwards.
    pub(super) fn append_back(&mut self, values: &[T]) {
        let rows = values.len() / self.width;
        if (self.reserve + self.len() + 2 + rows) * self.width > self.memory.len() {
            self.make_room(0, rows);
        }
        let len = self.len();
        let position = self.several(len + 1..len + 1 + rows);
        self.memory[position].copy_from_slice(values);
        self.rows.end += rows as u64;
    }

    /// Copies the rows to new memory with space for `front` more rows before them and `back` more rows after them, and for further
    /// rows at both ends.
    fn make_room(&mut self, front: usize, back: usize) {
        let count = self.len() + 2;
        let reserve = ((count + front + back) / ROOM).max(front + back);
        let mut memory = HugePages::zeroed((front + back + count + 2 * reserve) * self.width);
        let before = (front + reserve) * self.width;
        memory[before..before + count * self.width].copy_from_slice(&self.memory[self.several(0..count)]);
        self.memory = memory;
        self.reserve = front + reserve;
    }
}

/// Copies the rows to new memory, with the same amount of unused space before and after them. The copy is offset by one row relative to its memory:
/// if the old and the new rows of a stencil had the same offset in their large pages, they would evict each other's cache lines, and loads would wait
/// for stores.
impl<T: Pod> Clone for LocalRows<T> {
    fn clone(&self) -> Self {
        let mut memory = HugePages::zeroed(self.memory.len() + self.width);
        let all = self.several(0..self.len() + 2);
        memory[self.width..][all.clone()].copy_from_slice(&self.memory[all]);
        LocalRows { rows: self.rows.clone(), memory, reserve: self.reserve + 1, ..*self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Creates test rows whose values are made from the numbers of their row and column.
    fn local(rows: Range<u64>) -> LocalRows<u64> {
        LocalRows::create(3, rows, |row, values| {
            values.copy_from_slice(&[row, row + 100, row + 200]);
            Ok(())
        })
        .unwrap()
    }

    fn check(local: &LocalRows<u64>, rows: Range<u64>) {
        assert_eq!((local.rows(), local.len() as u64), (rows.clone(), rows.end - rows.start));
        let expected: Vec<u64> = rows.flat_map(|row| [row, row + 100, row + 200]).collect();
        assert_eq!(local.all(false), expected);
    }

    #[test]
    fn rows_lie_between_ghosts() {
        let mut local = local(5..8);
        check(&local, 5..8);
        assert_eq!((local.upper()[0], local.lower()[0], local.first()[0], local.last()[0]), (4, 8, 5, 7));
        let grid = local.grid();
        assert_eq!((grid.rows(), grid.width, grid.first, grid.values[0]), (5, 3, 4, 4));
        let around = local.around(&(1..2));
        assert_eq!((around.rows(), around.first, around.values[0], around.values[8]), (3, 5, 5, 207));
        assert_eq!(local.band(&(1..3))[..2], [6, 106]);
        local.wrap();
        assert_eq!((local.upper()[1], local.lower()[2], local.len()), (107, 205, 3));
    }

    #[test]
    fn migrated_border_row_remains_as_a_ghost() {
        let mut local = local(5..12);
        assert_eq!(local.take_front(2), [5, 105, 205, 6, 106, 206]);
        check(&local, 7..12);
        assert_eq!(local.upper()[0], 6);
        assert_eq!(local.take_back(3).len(), 9);
        check(&local, 7..9);
        assert_eq!(local.lower(), [9, 109, 209]);
    }

    #[test]
    fn block_can_become_empty_and_full_again() {
        let mut b = local(5..8);
        let back = b.take_back(2);
        let front = b.take_front(1);
        assert_eq!((b.len(), b.rows()), (0, 6..6));
        b.append_front(&front);
        check(&b, 5..6);
        b.append_back(&back);
        check(&b, 5..8);
        assert_eq!(b.lower()[0], 8, "no row was written beyond those that came");
    }

    #[test]
    fn received_rows_reuse_spare_memory() {
        let mut b = local(50..60);
        let memory = b.memory.as_ptr();
        // The memory has space for six more rows before and after the ten rows of the rank, so adding six rows at each end copies
        // nothing.
        b.append_back(local(60..66).all(false));
        b.append_front(local(44..50).all(false));
        assert_eq!(b.memory.as_ptr(), memory);
        // The new rows no longer fit. All rows are copied to new memory, which has space for as many further rows, at each end, as
        // arrive now.
        b.append_back(local(66..72).all(false));
        let memory = b.memory.as_ptr();
        b.append_back(local(72..78).all(false));
        b.append_front(local(38..44).all(false));
        check(&b, 38..78);
        assert_eq!(b.memory.as_ptr(), memory);
        let copy = b.clone();
        b.band(&(0..40)).fill(0);
        check(&copy, 38..78);
        assert_eq!(copy.reserve, b.reserve + 1);
    }

    #[test]
    fn rows_are_added_and_removed_at_both_ends() {
        let mut b = local(500..510);
        let mut rows = 500..510;
        for step in 0..300_u64 {
            let n = step * 7 % 5 + 1;
            match step * 13 % 4 {
                0 => {
                    rows.start -= n;
                    b.append_front(local(rows.start..rows.start + n).all(false));
                }
                1 => {
                    b.append_back(local(rows.end..rows.end + n).all(false));
                    rows.end += n;
                }
                2 if rows.end - rows.start >= n => {
                    b.take_front(n as usize);
                    rows.start += n;
                }
                3 if rows.end - rows.start >= n => {
                    b.take_back(n as usize);
                    rows.end -= n;
                }
                _ => {}
            }
            check(&b, rows.clone());
        }
    }
}

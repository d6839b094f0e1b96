//! Division of a matrix product into items of the pipeline, each of which yields a block of the product.

use crate::matrix::{ELEMENT, Matrix, Shape};
use armature::BoxError;
use serde::{Deserialize, Serialize};
use std::ops::Range;

/// Item of the pipeline: copies of some rows of A and some columns of B, whose product is a block of the product A · B.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Item {
    /// First row and first column in A · B of the block that this item yields.
    pub at: (u64, u64),
    /// Number of elements of a row of A, and number of columns of the block that this item yields.
    pub size: (u64, u64),
    /// Elements of the rows of A, one row after another.
    #[serde(with = "armature::raw")]
    pub a: Vec<f32>,
    /// Elements of the columns of B, row by row.
    #[serde(with = "armature::raw")]
    pub b: Vec<f32>,
}

/// Number of bytes of the right factor B that rank 0 reads at a time, or more if a single item needs more.
const PANEL: u64 = 16 << 20;

/// Iterator over the items of the product A · B. For each strip (`side` rows of A), the items follow the columns of B from first to last. Memory
/// holds one item, one strip of A and one panel (range of columns) of B. If B fits into one panel, B is read once, otherwise once for each strip.
#[derive(Debug)]
pub struct Blocks<'m> {
    shape: Shape,
    side: u64,
    a: &'m Matrix,
    b: &'m Matrix,
    next: (u64, u64),
    /// Rows of A for the current items.
    strip: Vec<f32>,
    /// Range of the columns of B in memory, and their elements row by row.
    panel: (Range<u64>, Vec<f32>),
    panel_bytes: u64,
    failed: bool,
}

impl<'m> Blocks<'m> {
    /// Creates the iterator over the items of the product `a` · `b`, with up to `side` rows and columns each.
    ///
    /// # Panics
    /// Panics if `side` is 0.
    pub fn new(shape: Shape, side: u64, a: &'m Matrix, b: &'m Matrix) -> Self {
        assert!(side > 0, "an item has rows and columns");
        Blocks {
            shape,
            side,
            a,
            b,
            next: (0, 0),
            strip: Vec::new(),
            panel: (0..0, Vec::new()),
            panel_bytes: PANEL,
            failed: false,
        }
    }

    /// Skips the first `count` items without reading their rows and columns. An earlier job has computed their blocks.
    pub fn skip_unread(mut self, count: u64) -> Self {
        let (strip, column) = (count / self.strip_items(), count % self.strip_items());
        self.next = (strip * self.side, column * self.side);
        self
    }

    fn strip_items(&self) -> u64 {
        self.shape.columns.div_ceil(self.side)
    }

    fn item(&mut self) -> Result<Item, BoxError> {
        let Shape { rows, inner, columns } = self.shape;
        let (row, column) = self.next;
        if column == 0 || self.strip.is_empty() {
            self.strip = self.a.block(row..rows.min(row + self.side), 0..inner)?;
        }
        let end = columns.min(column + self.side);
        let b = self.columns(column..end)?;
        self.next = if end == columns { (row + self.side, 0) } else { (row, end) };
        Ok(Item { at: (row, column), size: (inner, end - column), a: self.strip.clone(), b })
    }
}

impl Blocks<'_> {
    /// Returns the elements of some columns of B, row by row. If necessary, reads these and the following columns, which the next items need.
    fn columns(&mut self, wanted: Range<u64>) -> Result<Vec<f32>, BoxError> {
        let (held, elements) = &mut self.panel;
        if held.start > wanted.start || held.end < wanted.end {
            let Shape { inner, columns, .. } = self.shape;
            let items = (self.panel_bytes / (ELEMENT * inner * self.side)).max(1);
            *held = wanted.start..columns.min(wanted.start + items * self.side);
            // The old panel of columns is freed before the next panel is read, so that memory never holds two panels.
            elements.clear();
            elements.shrink_to_fit();
            *elements = self.b.block(0..inner, held.clone())?;
        }
        let (start, end) = ((wanted.start - held.start) as usize, (wanted.end - held.start) as usize);
        let rows = elements.chunks_exact((held.end - held.start) as usize);
        Ok(rows.flat_map(|row| &row[start..end]).copied().collect())
    }
}

impl Iterator for Blocks<'_> {
    type Item = Result<Item, BoxError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.failed || self.next.0 >= self.shape.rows {
            return None;
        }
        let item = self.item();
        self.failed = item.is_err();
        Some(item)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let strips = self.shape.rows.saturating_sub(self.next.0).div_ceil(self.side);
        let whole = strips * self.strip_items();
        let left = usize::try_from(whole - self.next.1.div_ceil(self.side).min(whole)).ok();
        (left.unwrap_or(usize::MAX), left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(shape: Shape, side: u64, panel_bytes: u64) -> u64 {
        let Shape { rows, inner, columns } = shape;
        let (a, generated) = (Matrix::generated(inner, 1), Matrix::generated(columns, 2));
        let b = generated.block(0..inner, 0..columns).unwrap();
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), bytemuck::cast_slice::<f32, u8>(&b)).unwrap();
        let b = Matrix::open(file.path(), inner, columns).unwrap();
        let mut items = 0;
        let blocks = Blocks { panel_bytes, ..Blocks::new(shape, side, &a, &b) };
        for item in blocks.map(Result::unwrap) {
            let first = item.at.1;
            assert_eq!(item.b, generated.block(0..inner, first..first + item.size.1).unwrap());
            items += 1;
        }
        assert_eq!(items, rows.div_ceil(side) * columns.div_ceil(side));
        b.reads()
    }

    #[test]
    fn column_panels_are_read_in_few_large_reads() {
        for side in [1, 3, 64] {
            assert_eq!(reads(Shape { rows: 64, inner: 64, columns: 64 }, side, PANEL), 1, "side {side}");
        }
        // B is read in two panels, with 4 columns and 1 column. Each panel takes one read per row, and each strip of A reads both panels.
        let shape = Shape { rows: 3, inner: 8, columns: 5 };
        assert_eq!(reads(shape, 1, 4 * 8 * ELEMENT), 3 * 2 * 8);
    }

    #[test]
    fn items_cover_the_product_once_and_have_an_exact_size_hint() {
        let shape = Shape { rows: 7, inner: 3, columns: 5 };
        let (a, b) = (Matrix::generated(3, 1), Matrix::generated(5, 2));
        for side in [1, 2, 3, 5, 7, 9] {
            let mut blocks = Blocks::new(shape, side, &a, &b);
            let expected = shape.rows.div_ceil(side) * shape.columns.div_ceil(side);
            let mut covered = [0; 35];
            for left in (0..expected as usize).rev() {
                let item = blocks.next().unwrap().unwrap();
                let mut rest = Blocks::new(shape, side, &a, &b).skip_unread(expected - 1 - left as u64);
                assert_eq!(rest.next().unwrap().unwrap(), item, "side {side}");
                assert_eq!(rest.size_hint(), (left, Some(left)), "side {side}");
                let (height, width) = (item.a.len() as u64 / 3, item.size.1);
                assert_eq!(item.b.len() as u64, 3 * width);
                for row in item.at.0..item.at.0 + height {
                    (item.at.1..item.at.1 + width).for_each(|c| covered[(row * 5 + c) as usize] += 1);
                }
                assert_eq!(blocks.size_hint(), (left, Some(left)), "side {side}");
            }
            assert!(blocks.next().is_none() && covered.iter().all(|&times| times == 1), "side {side}");
        }
    }
}

//! Division of the squaring of a matrix into tasks, each of which computes a block of the square, and the assembly of the blocks.

use crate::matrix::{Symmetric, dot};
use serde::{Deserialize, Serialize};
use std::ops::Range;
use std::sync::Arc;

/// Division of a matrix into panels, groups of adjacent rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Blocks {
    /// Number of rows of the matrix.
    pub size: usize,
    /// Number of rows of a panel (group of adjacent rows). The last panel may have fewer.
    pub height: usize,
}

/// Task: two panels (groups of adjacent rows) of a symmetric matrix, whose product is a block of the square. By symmetry, the right panel also holds
/// the columns.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Pair {
    size: usize,
    #[serde(with = "panel")]
    left: Panel,
    /// Right panel. It is empty for a block on the diagonal, which is the product of the left panel with itself.
    #[serde(with = "panel")]
    right: Panel,
}

/// Adjacent rows of the matrix, one after another. Tasks share a panel in memory until rank 0 sends them.
type Panel = Arc<Vec<f64>>;

mod panel {
    use super::{Arc, Panel};
    use serde::{Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(panel: &Panel, serializer: S) -> Result<S::Ok, S::Error> {
        armature::raw::serialize(panel, serializer)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Panel, D::Error> {
        armature::raw::deserialize(deserializer).map(Arc::new)
    }
}

impl Pair {
    /// Returns the product of the panels, a block of the square with one row per row of the left panel and one column per row of the right panel.
    pub fn product(&self) -> Vec<f64> {
        let mut block =
            Vec::with_capacity(self.left.len() / self.size * (self.right_panel().len() / self.size));
        for a in self.left.chunks_exact(self.size) {
            block.extend(self.right_panel().chunks_exact(self.size).map(|b| dot(a, b)));
        }
        block
    }

    /// Returns the number of floating-point operations of [`product`](Pair::product).
    pub fn flops(&self) -> f64 {
        2.0 * (self.left.len() / self.size) as f64 * self.right_panel().len() as f64
    }

    fn right_panel(&self) -> &Panel {
        if self.right.is_empty() { &self.left } else { &self.right }
    }
}

impl Blocks {
    /// Returns the tasks of one squaring of `matrix`: one for each block on and above the diagonal. The blocks below the diagonal are their mirror
    /// images.
    pub fn tasks(self, matrix: &Symmetric) -> Vec<Pair> {
        let panels: Vec<Panel> = self.panels().map(|rows| Arc::new(matrix.rows(rows).to_vec())).collect();
        let right = |i: usize, j: usize| if i == j { Panel::default() } else { panels[j].clone() };
        let task =
            |(i, j): (usize, usize)| Pair { size: self.size, left: panels[i].clone(), right: right(i, j) };
        self.panel_pairs().map(task).collect()
    }

    /// Returns the square of the matrix, assembled from the results of [`tasks`](Blocks::tasks) in their order.
    ///
    /// # Errors
    /// The number of blocks or the size of a block is wrong.
    pub fn assemble(self, blocks: &[Vec<f64>]) -> Result<Symmetric, String> {
        let panels: Vec<Range<usize>> = self.panels().collect();
        let expected = self.panel_pairs().count();
        if blocks.len() != expected {
            return Err(format!("{} blocks were returned, expected {expected}", blocks.len()));
        }
        let mut square = Symmetric::from_fn(self.size, |_, _| 0.0);
        for ((i, j), block) in self.panel_pairs().zip(blocks) {
            let (rows, columns) = (panels[i].clone(), panels[j].clone());
            let expected = rows.len() * columns.len();
            if block.len() != expected {
                return Err(format!("block {i},{j} has {} elements, expected {expected}", block.len()));
            }
            for (row, values) in rows.zip(block.chunks_exact(columns.len())) {
                for (column, &value) in columns.clone().zip(values) {
                    square.set(row, column, value);
                }
            }
        }
        Ok(square)
    }

    fn panels(self) -> impl Iterator<Item = Range<usize>> {
        (0..self.size).step_by(self.height).map(move |first| first..self.size.min(first + self.height))
    }

    fn panel_pairs(self) -> impl Iterator<Item = (usize, usize)> {
        let count = self.size.div_ceil(self.height);
        (0..count).flat_map(move |i| (i..count).map(move |j| (i, j)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places::{scatter, weights};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_assemble_to_the_bitwise_equal_square(size in 1usize..40, height in 1usize..50, seed: u64) {
            let matrix = weights(&scatter(size, seed), 0.3);
            let blocks = Blocks { size, height };
            let tasks = blocks.tasks(&matrix);
            let results: Vec<Vec<f64>> = tasks.iter().map(Pair::product).collect();
            prop_assert_eq!(blocks.assemble(&results).unwrap(), matrix.square());
            let flops: f64 = tasks.iter().map(Pair::flops).sum();
            let elements: usize = results.iter().map(Vec::len).sum();
            prop_assert_eq!(flops, 2.0 * (elements * size) as f64);
        }
    }

    #[test]
    fn blocks_of_wrong_number_or_size_are_refused() {
        let blocks = Blocks { size: 5, height: 3 };
        let good = vec![vec![0.0; 9], vec![0.0; 6], vec![0.0; 4]];
        assert!(blocks.assemble(&good).is_ok());
        assert_eq!(blocks.assemble(&good[..2]).unwrap_err(), "2 blocks were returned, expected 3");
        let error = blocks.assemble(&[vec![0.0; 9], vec![0.0; 7], vec![0.0; 4]]).unwrap_err();
        assert_eq!(error, "block 0,1 has 7 elements, expected 6");
    }
}

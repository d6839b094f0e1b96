//! Parts of the product, put together to whole rows.

use armature::BoxError;
use serde::{Deserialize, Serialize};

/// A part of the product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// First row and first column.
    pub at: (u64, u64),
    /// Columns.
    pub width: u64,
    /// Elements, row by row.
    #[serde(with = "armature::raw")]
    pub values: Vec<f32>,
}

/// Takes parts in the order of the items, and gives whole rows. In memory there is one strip of rows.
#[derive(Debug)]
pub struct Reducer {
    columns: usize,
    rows: u64,
    done: usize,
    strip: Vec<f32>,
}

impl Reducer {
    /// For a product with so many columns.
    pub fn new(columns: u64) -> Self {
        Reducer { columns: columns as usize, rows: 0, done: 0, strip: Vec::new() }
    }

    /// The next part; if it is the last one of its rows, they come back with the number of the first one.
    ///
    /// # Errors
    /// If it is not the next one, or does not fit.
    pub fn add(&mut self, part: &Part) -> Result<Option<(u64, &[f32])>, BoxError> {
        let (width, columns) = (part.width as usize, self.columns);
        let height = part.values.len().checked_div(width).unwrap_or(0);
        if part.at != (self.rows, self.done as u64) || height == 0 || self.done + width > columns {
            let (expected, found) = ((self.rows, self.done), part.at);
            return Err(format!("a part of the product at {found:?} came where {expected:?} was due").into());
        }
        if self.done == 0 {
            self.strip.clear();
            self.strip.resize(height * columns, 0.0);
        }
        for (to, from) in self.strip.chunks_exact_mut(columns).zip(part.values.chunks_exact(width)) {
            to[self.done..][..width].copy_from_slice(from);
        }
        self.done += width;
        if self.done < columns {
            return Ok(None);
        }
        let first = self.rows;
        (self.rows, self.done) = (first + height as u64, 0);
        Ok(Some((first, &self.strip)))
    }

    /// Rows that are whole.
    pub fn rows(&self) -> u64 {
        self.rows
    }
}

/// A number that depends on every bit of a sequence of elements, and on their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum(pub u64);

impl Checksum {
    /// More elements.
    pub fn add(&mut self, values: &[f32]) {
        /// Prime of the hash of Fowler, Noll and Vo for 64 bits.
        const PRIME: u64 = 0x0100_0000_01b3;
        for value in values {
            self.0 = (self.0 ^ u64::from(value.to_bits())).wrapping_mul(PRIME).rotate_left(29);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(at: (u64, u64), width: u64, values: &[f32]) -> Part {
        Part { at, width, values: values.to_vec() }
    }

    #[test]
    fn rows_are_whole_when_their_last_part_has_come() {
        let mut reducer = Reducer::new(3);
        assert_eq!(reducer.add(&part((0, 0), 2, &[1.0, 2.0, 4.0, 5.0])).unwrap(), None);
        let rows = reducer.add(&part((0, 2), 1, &[3.0, 6.0])).unwrap();
        assert_eq!(rows, Some((0, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0][..])));
        assert_eq!(reducer.rows(), 2);
        let rows = reducer.add(&part((2, 0), 3, &[7.0, 8.0, 9.0])).unwrap();
        assert_eq!(rows, Some((2, &[7.0, 8.0, 9.0][..])));
    }

    #[test]
    fn parts_out_of_order_are_refused() {
        let mut reducer = Reducer::new(3);
        assert!(reducer.add(&part((0, 1), 1, &[1.0])).unwrap_err().to_string().contains("was due"));
        assert!(reducer.add(&part((0, 0), 4, &[1.0; 4])).is_err());
        assert!(reducer.add(&part((0, 0), 2, &[1.0])).is_err());
    }

    #[test]
    fn a_checksum_knows_the_order() {
        let of = |values: &[f32]| {
            let mut sum = Checksum::default();
            sum.add(values);
            sum
        };
        assert!(of(&[1.0, 2.0]) != of(&[2.0, 1.0]) && of(&[0.0]) != of(&[-0.0]));
    }
}

//! Assembly of the parts (blocks) of a matrix product into complete rows.

use armature::BoxError;
use armature::pipeline::{Context, Stage, StageResult};
use serde::{Deserialize, Serialize};

/// Part (block) of a matrix product: the result of one item of the pipeline.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Part {
    /// First row and first column of the part in the product.
    pub at: (u64, u64),
    /// Number of columns of the part.
    pub width: u64,
    /// Elements of the part, row by row.
    #[serde(with = "armature::raw")]
    pub values: Vec<f32>,
}

/// Complete rows of the product.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Rows {
    /// Index in the product of the first of these rows.
    pub first: u64,
    /// Elements of the rows, row by row.
    #[serde(with = "armature::raw")]
    pub values: Vec<f32>,
}

/// Stage that receives the parts of the product in order and returns its complete rows. Only the incomplete rows are in memory.
#[derive(Clone, Debug)]
pub struct Reducer {
    columns: usize,
    /// `rows` counts the complete rows of the product, and `done` the columns of the incomplete rows that have arrived.
    rows: u64,
    done: u64,
    strip: Vec<f32>,
}

impl Reducer {
    /// Creates the reducer for a product with `columns` columns.
    pub fn new(columns: u64) -> Self {
        Reducer { columns: columns as usize, rows: 0, done: 0, strip: Vec::new() }
    }

    /// Adds the next part of the product. Returns the rows that this part completes.
    ///
    /// # Errors
    /// `part` is not the next part in order, or its size is wrong.
    pub fn add(&mut self, part: &Part) -> Result<Option<Rows>, BoxError> {
        let (width, columns, done) = (part.width as usize, self.columns, self.done as usize);
        let height = part.values.len().checked_div(width).unwrap_or(0);
        let fits = done == 0 || self.strip.len() == height * columns;
        if part.at != (self.rows, self.done) || height == 0 || done + width > columns || !fits {
            let (expected, found) = ((self.rows, self.done), part.at);
            return Err(format!("a part of the product at {found:?} arrived, expected {expected:?}").into());
        }
        if done == 0 {
            self.strip.resize(height * columns, 0.0);
        }
        for (to, from) in self.strip.chunks_exact_mut(columns).zip(part.values.chunks_exact(width)) {
            to[done..][..width].copy_from_slice(from);
        }
        self.done += part.width;
        if done + width < columns {
            return Ok(None);
        }
        let first = self.rows;
        (self.rows, self.done) = (first + height as u64, 0);
        Ok(Some(Rows { first, values: std::mem::take(&mut self.strip) }))
    }
}

impl Stage for Reducer {
    type In = Part;
    type Out = Rows;

    fn process(&mut self, part: Part, cx: &mut Context) -> StageResult<Rows> {
        cx.declare(PART_OVERHEAD + part.values.len() as f64, || self.add(&part))
    }

    fn save(&self) -> Option<Vec<u8>> {
        let head = [self.rows.to_le_bytes(), self.done.to_le_bytes()].concat();
        Some(head.into_iter().chain(self.strip.iter().flat_map(|value| value.to_le_bytes())).collect())
    }

    fn restore(&mut self, state: &[u8]) -> Result<(), BoxError> {
        let (head, strip) = state.split_at_checked(HEADER_BYTES).ok_or("the state of reduce is cut off")?;
        let (rows, done) = head.split_at(HEADER_BYTES / 2);
        (self.rows, self.done) = (u64::from_le_bytes(rows.try_into()?), u64::from_le_bytes(done.try_into()?));
        self.strip = strip.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        Ok(())
    }
}

/// Cost of adding a part to the product, in addition to one operation per element; in operations of one nanosecond.
const PART_OVERHEAD: f64 = 50.0;
/// Size in bytes of the two counters before the elements of incomplete rows in a snapshot of the reducer.
const HEADER_BYTES: usize = 16;

/// Checksum of a sequence of elements, which depends on every bit and on the order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Checksum(pub u64);

impl Checksum {
    /// Adds the next elements to the checksum.
    pub fn add(&mut self, values: &[f32]) {
        /// Prime of the 64-bit Fowler–Noll–Vo hash.
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
    fn rows_are_complete_when_their_last_part_arrives() {
        let mut reducer = Reducer::new(3);
        assert_eq!(reducer.add(&part((0, 0), 2, &[1.0, 2.0, 4.0, 5.0])).unwrap(), None);
        let rows = reducer.add(&part((0, 2), 1, &[3.0, 6.0])).unwrap();
        assert_eq!(rows, Some(Rows { first: 0, values: vec![1.0, 2.0, 3.0, 4.0, 5.0, 6.0] }));
        let rows = reducer.add(&part((2, 0), 3, &[7.0, 8.0, 9.0])).unwrap();
        assert_eq!(rows, Some(Rows { first: 2, values: vec![7.0, 8.0, 9.0] }));
    }

    #[test]
    fn restored_reducer_continues_from_its_saved_state() {
        let (mut first, mut second) = (Reducer::new(3), Reducer::new(3));
        first.add(&part((0, 0), 2, &[1.0, 2.0, 4.0, 5.0])).unwrap();
        second.restore(&first.save().unwrap()).unwrap();
        let last = part((0, 2), 1, &[3.0, 6.0]);
        assert_eq!(second.add(&last).unwrap(), first.add(&last).unwrap());
        assert!(second.restore(&[0; 15]).unwrap_err().to_string().contains("cut off"));
    }

    #[test]
    fn parts_out_of_order_are_refused() {
        let mut reducer = Reducer::new(3);
        assert!(reducer.add(&part((0, 1), 1, &[1.0])).unwrap_err().to_string().contains("arrived, expected"));
        assert!(reducer.add(&part((0, 0), 4, &[1.0; 4])).is_err());
        assert!(reducer.add(&part((0, 0), 2, &[1.0])).is_err());
        reducer.add(&part((0, 0), 2, &[1.0; 4])).unwrap();
        assert!(reducer.add(&part((0, 2), 1, &[1.0])).is_err());
    }

    #[test]
    fn checksum_depends_on_order() {
        let of = |values: &[f32]| {
            let mut sum = Checksum::default();
            sum.add(values);
            sum
        };
        assert!(of(&[1.0, 2.0]) != of(&[2.0, 1.0]) && of(&[0.0]) != of(&[-0.0]));
    }
}

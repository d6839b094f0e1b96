//! Consecutive source items from which the items of one batch were made.

use super::produced_counts::ProducedCounts;
use crate::error::Error;

/// Consecutive source items from which the items of a batch were made, and those of them that stages have dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) first: u64,
    pub(crate) count: u32,
    /// Positions in the batch, from 0 and ascending, of the source items that stages have dropped.
    pub(crate) dropped: Vec<u32>,
    /// Number of items made from each source item, if the batch has passed an expanding stage (one that makes several items from one) or is the last
    /// batch of the stream. `dropped` is then empty.
    pub(crate) produced: Option<ProducedCounts>,
}

impl Range {
    pub(crate) fn new(first: u64, count: u32) -> Self {
        Range { first, count, ..Range::default() }
    }

    pub(crate) fn live(&self) -> usize {
        match &self.produced {
            Some(produced) => produced.items(),
            None => self.count as usize - self.dropped.len(),
        }
    }

    /// Returns, for each item of the batch in order, the position in the batch of the source item from which it was made.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        let mut removed = self.dropped.iter().copied().peekable();
        let count = if self.produced.is_some() { 0 } else { self.count };
        let places = (0..count).filter(move |place| removed.next_if_eq(place).is_none());
        places.chain(self.produced.iter().flat_map(ProducedCounts::places))
    }

    /// Returns true if the batch holds one item for each of its source items: no stage has dropped an item or made several items from one.
    pub(super) fn is_full(&self) -> bool {
        self.dropped.is_empty() && self.produced.is_none()
    }

    /// Records that stages have dropped the items at the ascending positions `removed` of the batch.
    pub(super) fn remove_places(&mut self, mut removed: Vec<u32>) {
        match &mut self.produced {
            Some(produced) => produced.remove_places(removed),
            None if removed.is_empty() => {}
            None => {
                self.dropped.append(&mut removed);
                self.dropped.sort();
            }
        }
    }

    /// Returns the number, counted from the start of the stream, of the source item from which item number `position` of the batch was made.
    pub(crate) fn number_of(&self, position: usize) -> u64 {
        self.first + u64::from(self.places().nth(position).unwrap_or(self.count))
    }

    /// Adds the numbers of the batch's source items to an error that concerns the batch as a whole.
    pub(crate) fn blame(&self, error: Error) -> Error {
        let from = self.number_of(0);
        match self.live() {
            0 | 1 => error.on_item(from),
            items => {
                let text = format!("{} (in a batch of {items} items from this one on)", error.message());
                Error::new(error.kind(), text).on_item(from)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    #[test]
    fn batch_error_names_its_first_item() {
        let torn = || Error::new(ErrorKind::Wire, "torn");
        let range = Range { dropped: vec![0], ..Range::new(10, 3) };
        assert_eq!(range.blame(torn()).to_string(), "item 11: torn (in a batch of 2 items from this one on)");
        let range = Range { dropped: vec![0], ..Range::new(10, 2) };
        assert_eq!(range.blame(torn()).to_string(), "item 11: torn");
    }
}

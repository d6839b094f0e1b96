//! Which items of the source a batch stands for.

use super::made::Made;
use crate::error::Error;

/// Which numbers a batch stands for, and which of them are no longer in it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Range {
    /// Number of the first item.
    pub(crate) first: u64,
    /// How many items the source put in.
    pub(crate) count: u32,
    /// Places (from 0, ascending) of those that a stage has dropped since.
    pub(crate) dropped: Vec<u32>,
    /// Where there is more or less than one item for each of the source's. Then nothing is `dropped`.
    pub(crate) made: Option<Made>,
}

impl Range {
    /// `count` items from number `first` on, as the source gives them.
    pub(crate) fn new(first: u64, count: u32) -> Self {
        Range { first, count, ..Range::default() }
    }

    /// Items still in the batch.
    pub(crate) fn live(&self) -> usize {
        match &self.made {
            Some(made) => made.items(),
            None => self.count as usize - self.dropped.len(),
        }
    }

    /// The places of the items still there, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        let mut gone = self.dropped.iter().copied().peekable();
        let count = if self.made.is_some() { 0 } else { self.count };
        let places = (0..count).filter(move |place| gone.next_if_eq(place).is_none());
        places.chain(self.made.iter().flat_map(Made::places))
    }

    /// Whether there is one item for each of the source's.
    pub(super) fn is_full(&self) -> bool {
        self.dropped.is_empty() && self.made.is_none()
    }

    /// Takes note that the items at these places, which ascend, are dropped.
    pub(super) fn drop_places(&mut self, mut gone: Vec<u32>) {
        match &mut self.made {
            Some(made) => made.take_away(gone),
            None if gone.is_empty() => {}
            None => {
                self.dropped.append(&mut gone);
                // Two sorted runs, which the sort merges.
                self.dropped.sort();
            }
        }
    }

    /// Number of the item at `position` among those still there.
    pub(crate) fn number_of(&self, position: usize) -> u64 {
        self.first + u64::from(self.places().nth(position).unwrap_or(self.count))
    }

    /// Adds to an error with the batch as a whole which items it is about.
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
    fn an_error_with_a_batch_names_its_first_item() {
        let torn = || Error::new(ErrorKind::Wire, "torn");
        let range = Range { dropped: vec![0], ..Range::new(10, 3) };
        assert_eq!(range.blame(torn()).to_string(), "item 11: torn (in a batch of 2 items from this one on)");
        let range = Range { dropped: vec![0], ..Range::new(10, 2) };
        assert_eq!(range.blame(torn()).to_string(), "item 11: torn");
    }
}

//! Which items of the source a batch stands for.

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
    /// Where there is more or less than one item for each of the source's: how many there are, by place. Then
    /// nothing is `dropped`.
    pub(crate) made: Option<Vec<Made>>,
}

/// Items that come from the same one of the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// The place of that one.
    pub(crate) place: u32,
    pub(crate) items: u32,
}

impl Range {
    /// `count` items from number `first` on, as the source gives them.
    pub(crate) fn new(first: u64, count: u32) -> Self {
        Range { first, count, ..Range::default() }
    }

    /// Items still in the batch.
    pub(crate) fn live(&self) -> usize {
        match &self.made {
            Some(made) => made.iter().map(|made| made.items as usize).sum(),
            None => self.count as usize - self.dropped.len(),
        }
    }

    /// The places of the items still there, in order.
    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        let mut gone = self.dropped.iter().copied().peekable();
        let count = if self.made.is_some() { 0 } else { self.count };
        let places = (0..count).filter(move |place| gone.next_if_eq(place).is_none());
        let made = self.made.iter().flatten();
        places.chain(made.flat_map(|made| std::iter::repeat_n(made.place, made.items as usize)))
    }

    /// Whether there is one item for each of the source's.
    pub(super) fn is_full(&self) -> bool {
        self.dropped.is_empty() && self.made.is_none()
    }

    /// Takes note that the items at these places, which ascend, are dropped.
    pub(super) fn drop_places(&mut self, mut gone: Vec<u32>) {
        let Some(made) = &mut self.made else {
            if !gone.is_empty() {
                self.dropped.append(&mut gone);
                // Two sorted runs, which the sort merges.
                self.dropped.sort();
            }
            return;
        };
        let mut gone = gone.into_iter().peekable();
        for made in made.iter_mut() {
            while gone.next_if_eq(&made.place).is_some() {
                made.items -= 1;
            }
        }
        made.retain(|made| made.items > 0);
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

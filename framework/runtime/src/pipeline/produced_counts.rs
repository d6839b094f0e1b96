//! Numbers of items that expanding stages (those that make several items from one) have made from each source item of a batch. Most such stages make
//! the same number of items from each item. The numbers are therefore run-length encoded: a batch of thousands of items has one or a few runs of
//! source items with equal numbers.

/// Consecutive source items of a batch from which equal numbers of items were made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    /// Position in the batch of the first of these consecutive source items.
    pub(crate) place: u32,
    /// Number of consecutive source items with equal counts, at least 1.
    pub(crate) places: u32,
    /// Number of items made from each of these consecutive source items.
    pub(crate) items: u32,
}

impl Run {
    fn end(&self) -> u64 {
        u64::from(self.place) + u64::from(self.places)
    }
}

/// Number of produced items by position of the source item in the batch, in order. Source items without output are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct ProducedCounts {
    runs: Vec<Run>,
}

impl ProducedCounts {
    pub(crate) fn of_runs(runs: impl Iterator<Item = Run>) -> Self {
        ProducedCounts { runs: runs.collect() }
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Adds `items` items made from the source item at position `place`, which must not be before any position added earlier.
    #[inline]
    pub(crate) fn add(&mut self, place: u32, items: u32) {
        match self.runs.last_mut() {
            Some(last) if last.end() == u64::from(place) && last.items == items => last.places += 1,
            Some(last) if last.end() == u64::from(place) + 1 => self.add_to_last(place, items),
            _ => self.runs.push(Run { place, places: 1, items }),
        }
    }

    /// Adds `items` to the count of the last source item, which then belongs to another group of adjacent source items with equal counts.
    fn add_to_last(&mut self, place: u32, items: u32) {
        let Some(last) = self.runs.last_mut() else { return };
        let more = last.items + items;
        last.places -= 1;
        if last.places == 0 {
            self.runs.pop();
        }
        self.add(place, more);
    }

    /// Returns true if the positions of the source items ascend and none exceeds `count`, the number of source items in the batch. Items emitted at
    /// the end of the stream have position `count`.
    pub(crate) fn is_in_order(&self, count: u32) -> bool {
        self.runs.is_sorted_by(|a, b| a.end() <= u64::from(b.place))
            && self.runs.last().is_none_or(|last| last.end() <= u64::from(count) + 1)
    }

    pub(crate) fn items(&self) -> usize {
        self.runs.iter().map(|run| run.places as usize * run.items as usize).sum()
    }

    pub(crate) fn sources(&self) -> usize {
        self.runs.iter().map(|run| run.places as usize).sum()
    }

    /// Returns the position of each source item from which items were made, and their number.
    pub(crate) fn by_place(&self) -> impl Iterator<Item = (u32, u32)> {
        self.runs.iter().flat_map(|run| (0..run.places).map(|n| (run.place + n, run.items)))
    }

    pub(crate) fn places(&self) -> impl Iterator<Item = u32> {
        self.by_place().flat_map(|(place, items)| std::iter::repeat_n(place, items as usize))
    }

    /// Counts, for each of the sorted positions `removed`, one item less for the source item at this position.
    pub(crate) fn remove_places(&mut self, removed: Vec<u32>) {
        if removed.is_empty() {
            return;
        }
        let mut removed = removed.into_iter().peekable();
        let mut left = ProducedCounts::default();
        for (place, mut items) in self.by_place() {
            while removed.next_if_eq(&place).is_some() {
                items -= 1;
            }
            if items > 0 {
                left.add(place, items);
            }
        }
        *self = left;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn produced(of: &[(u32, u32)]) -> ProducedCounts {
        let mut produced = ProducedCounts::default();
        of.iter().for_each(|&(place, items)| produced.add(place, items));
        produced
    }

    #[test]
    fn consecutive_equal_positions_form_a_run() {
        let produced = produced(&[(2, 3), (3, 3), (4, 3), (6, 3), (7, 1)]);
        let run = |place, places, items| Run { place, places, items };
        assert_eq!(produced.runs(), [run(2, 3, 3), run(6, 1, 3), run(7, 1, 1)]);
        assert_eq!((produced.items(), produced.sources()), (13, 5));
        assert_eq!(produced.places().collect::<Vec<_>>(), [2, 2, 2, 3, 3, 3, 4, 4, 4, 6, 6, 6, 7]);
    }

    #[test]
    fn last_position_may_gain_items() {
        let run = |place, places, items| Run { place, places, items };
        assert_eq!(produced(&[(0, 2), (1, 2), (1, 1)]).runs(), [run(0, 1, 2), run(1, 1, 3)]);
        assert_eq!(produced(&[(0, 2), (1, 1), (1, 1), (2, 2)]).runs(), [run(0, 3, 2)]);
        assert_eq!(produced(&[(5, 1), (5, 1)]).runs(), [run(5, 1, 2)]);
    }

    #[test]
    fn unordered_positions_are_detected() {
        assert!(
            produced(&[(0, 2), (4, 1), (5, 9)]).is_in_order(5),
            "what comes at the end is behind all places"
        );
        assert!(!produced(&[(0, 2), (4, 1), (5, 9)]).is_in_order(4));
        assert!(!produced(&[(4, 1), (0, 2)]).is_in_order(5));
        let endless = Run { place: 1, places: u32::MAX, items: 1 };
        assert!(!ProducedCounts::of_runs([endless].into_iter()).is_in_order(5));
    }

    #[test]
    fn removal_keeps_the_other_items() {
        let mut all = produced(&[(0, 2), (1, 2), (2, 2), (9, 1)]);
        all.remove_places(vec![1, 1, 2, 9]);
        assert_eq!(all, produced(&[(0, 2), (2, 1)]));
        all.remove_places(vec![]);
        assert_eq!(all.items(), 3);
    }
}

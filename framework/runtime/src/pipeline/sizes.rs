//! Which batches are weighed: sent through their codec and back, where nothing else shows how large items are.

use std::time::Duration;

/// Batches of an edge whose size may be taken beside those that must be. Items differ, and the mean of a few may be far
/// off; of these, it is as good as the mean of as many service times.
const MORE: usize = 61;
/// Weighing them takes at most one part in 200 of the computing time: half a per cent is not felt.
const PARTS: u32 = 200;

/// What is left to weigh, by edge, and what it has cost.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    must: Vec<usize>,
    may: Vec<usize>,
    computing: Duration,
    weighing: Duration,
}

impl Sizes {
    /// From now on: the next `batches` batches of each of `edges` edges, and more where that takes next to no time.
    pub(crate) fn take(&mut self, batches: usize, edges: usize) {
        self.must = vec![batches; edges];
        self.may = vec![MORE; edges];
    }

    /// Whether the size of the batch that is at `edge` now is to be taken; asked once for each.
    pub(crate) fn is_due(&mut self, edge: usize) -> bool {
        let is_cheap = self.weighing * PARTS <= self.computing;
        let must = self.must.get_mut(edge).filter(|left| **left > 0);
        let may = self.may.get_mut(edge).filter(|left| **left > 0 && is_cheap);
        let Some(left) = must.or(may) else { return false };
        *left -= 1;
        true
    }

    /// A batch was computed.
    pub(crate) fn computed(&mut self, took: Duration) {
        self.computing += took;
    }

    /// A batch was weighed.
    pub(crate) fn weighed(&mut self, took: Duration) {
        self.weighing += took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Batches of 10 ms that are weighed, if weighing one takes `weighing`.
    fn weighed(weighing: Duration, batches: usize) -> usize {
        let mut sizes = Sizes::default();
        assert!(!sizes.is_due(0), "nobody wants to know");
        sizes.take(3, 2);
        let mut count = 0;
        for _ in 0..batches {
            sizes.computed(10 * MS);
            if sizes.is_due(1) {
                sizes.weighed(weighing);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn the_first_are_weighed_and_then_what_costs_little() {
        assert_eq!(weighed(MS, 3), 3);
        assert_eq!(weighed(MS, 80), 5, "no more than 4 ms of 800, and the one that leads there");
        assert_eq!(weighed(MS / 100, 30), 30);
        assert_eq!(weighed(MS / 100, 1000), 3 + MORE);
        assert_eq!(weighed(Duration::ZERO, 1000), 3 + MORE);
    }
}

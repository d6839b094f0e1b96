//! Selection of batches whose size is measured by encoding and decoding them, because no message shows how large their items are.

use std::time::Duration;

/// Number of optional measurements per edge, in addition to the required ones. Items differ, and the mean of a few may be far off; with this number,
/// the mean is as good as that of as many service times.
const MORE: usize = 61;
/// Optional measurements take at most one part in 200 of the computing time: half a per cent is not noticeable.
const PARTS: u32 = 200;

/// Remaining measurements by edge, and the time that measurements have taken.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    must: Vec<usize>,
    may: Vec<usize>,
    computing: Duration,
    weighing: Duration,
}

impl Sizes {
    /// Requests measurements of the next `batches` batches of each of `edges` edges, and of further batches while that is cheap.
    pub(crate) fn take(&mut self, batches: usize, edges: usize) {
        self.must = vec![batches; edges];
        self.may = vec![MORE; edges];
    }

    /// Returns true if the size of the current batch at `edge` is to be measured. Called once per batch.
    pub(crate) fn is_due(&mut self, edge: usize) -> bool {
        let is_cheap = self.weighing * PARTS <= self.computing;
        let must = self.must.get_mut(edge).filter(|left| **left > 0);
        let may = self.may.get_mut(edge).filter(|left| **left > 0 && is_cheap);
        let Some(left) = must.or(may) else { return false };
        *left -= 1;
        true
    }

    /// Adds the computing time of a batch.
    pub(crate) fn computed(&mut self, took: Duration) {
        self.computing += took;
    }

    /// Adds the time of a measurement.
    pub(crate) fn weighed(&mut self, took: Duration) {
        self.weighing += took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the number of batches of 10 ms that are weighed, if weighing a batch takes `weighing`.
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
    fn first_items_are_weighed_and_others_if_cheap() {
        assert_eq!(weighed(MS, 3), 3);
        assert_eq!(weighed(MS, 80), 5, "no more than 4 ms of 800, and the one that leads there");
        assert_eq!(weighed(MS / 100, 30), 30);
        assert_eq!(weighed(MS / 100, 1000), 3 + MORE);
        assert_eq!(weighed(Duration::ZERO, 1000), 3 + MORE);
    }
}

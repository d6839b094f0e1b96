//! Selection of batches whose size in bytes is measured by encoding and decoding them. This is needed on edges within a rank, over which no message
//! is sent.

use std::time::Duration;

/// Number of optional size measurements per edge, in addition to the required ones. Items differ, and the mean size of a few batches may be far off;
/// with this number, the mean is as good as that of as many service times.
const MORE: usize = 61;
/// Optional size measurements take at most one part in 200 of the computing time: half a per cent is not noticeable.
const PARTS: u32 = 200;

/// Number of size measurements still to be made on each edge, and the time that they have taken so far.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    must: Vec<usize>,
    may: Vec<usize>,
    computing: Duration,
    weighing: Duration,
}

impl Sizes {
    /// Requests size measurements of the next `batches` batches on each of `edges` edges, and of further batches while that is cheap.
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

    /// Adds the computing time of a batch, of which size measurements may take a small part.
    pub(crate) fn computed(&mut self, took: Duration) {
        self.computing += took;
    }

    /// Adds the time that a size measurement has taken.
    pub(crate) fn weighed(&mut self, took: Duration) {
        self.weighing += took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the number of batches whose size is measured, of `batches` batches that compute for 10 ms each, if a measurement takes `weighing`.
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

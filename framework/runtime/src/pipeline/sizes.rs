//! Selection of the batches whose size in bytes is measured by encoding and decoding them. Only batches between two stages on the same rank need this
//! measurement, because they are not sent as messages.

use std::time::Duration;

/// Maximum number of size measurements between any two stages beyond the required number. Items differ in size; with these measurements the mean size
/// is as accurate as the mean service time.
const MORE: usize = 61;
/// Maximum cost of size measurements beyond the required number: the computing time divided by this number. Half a per cent of the computing time is
/// not noticeable.
const PARTS: u32 = 200;

/// Numbers of required and of optional size measurements that remain for each edge between two stages, and the time that such measurements have
/// taken.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    must: Vec<usize>,
    may: Vec<usize>,
    computing: Duration,
    measuring: Duration,
}

impl Sizes {
    /// Requests size measurements of the next `batches` batches on each of `edges` edges between stages, and of [`MORE`] further batches as long as
    /// the measurements take little time.
    pub(crate) fn take(&mut self, batches: usize, edges: usize) {
        self.must = vec![batches; edges];
        self.may = vec![MORE; edges];
    }

    /// Returns true if the encoded size of the current batch must be measured on `edge`, an edge between two stages. Called once for each batch.
    pub(crate) fn is_due(&mut self, edge: usize) -> bool {
        let is_cheap = self.measuring * PARTS <= self.computing;
        let must = self.must.get_mut(edge).filter(|left| **left > 0);
        let may = self.may.get_mut(edge).filter(|left| **left > 0 && is_cheap);
        let Some(left) = must.or(may) else { return false };
        *left -= 1;
        true
    }

    pub(crate) fn computed(&mut self, took: Duration) {
        self.computing += took;
    }

    pub(crate) fn measured(&mut self, took: Duration) {
        self.measuring += took;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    /// Returns the number of batches, of `batches`, whose size is measured if each batch takes 10 ms of computing and one measurement takes
    /// `measuring`.
    fn measured_batches(measuring: Duration, batches: usize) -> usize {
        let mut sizes = Sizes::default();
        assert!(!sizes.is_due(0), "nobody wants to know");
        sizes.take(3, 2);
        let mut count = 0;
        for _ in 0..batches {
            sizes.computed(10 * MS);
            if sizes.is_due(1) {
                sizes.measured(measuring);
                count += 1;
            }
        }
        count
    }

    #[test]
    fn first_items_are_measured_and_others_if_cheap() {
        assert_eq!(measured_batches(MS, 3), 3);
        assert_eq!(measured_batches(MS, 80), 5, "no more than 4 ms of 800, and the one that leads there");
        assert_eq!(measured_batches(MS / 100, 30), 30);
        assert_eq!(measured_batches(MS / 100, 1000), 3 + MORE);
        assert_eq!(measured_batches(Duration::ZERO, 1000), 3 + MORE);
    }
}

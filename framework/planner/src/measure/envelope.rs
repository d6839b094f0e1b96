//! The least of a series, of which the past fades.

/// Observations after which a generation ends.
const GENERATION: u32 = 64;

/// One message: its bytes, and the seconds from when it was sent to when it was there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Passage {
    pub(super) bytes: f64,
    pub(super) delay: f64,
}

impl Passage {
    /// The delay without what the bytes take at `bandwidth`.
    fn rest(&self, bandwidth: f64) -> f64 {
        self.delay - self.bytes / bandwidth
    }
}

/// The passage that waited least among the last 64 to 128.
///
/// Two generations are kept, this one and the last: so what is old goes, and adding stays O(1).
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Envelope {
    this: Option<Passage>,
    last: Option<Passage>,
    in_this: u32,
    count: u64,
}

impl Envelope {
    /// Adds a passage; `bandwidth` is what is believed of the link, to compare passages of unequal size.
    pub(super) fn add(&mut self, passage: Passage, bandwidth: f64) {
        if self.in_this == GENERATION {
            self.last = self.this.take();
            self.in_this = 0;
        }
        self.in_this += 1;
        self.count += 1;
        self.this = least(self.this, Some(passage), bandwidth);
    }

    /// The passage that waited least.
    pub(super) fn least(&self, bandwidth: f64) -> Option<Passage> {
        least(self.last, self.this, bandwidth)
    }

    /// Passages so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }
}

fn least(a: Option<Passage>, b: Option<Passage>, bandwidth: f64) -> Option<Passage> {
    match (a, b) {
        (Some(a), Some(b)) => Some(if b.rest(bandwidth) < a.rest(bandwidth) { b } else { a }),
        (a, b) => a.or(b),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_is_kept_for_one_generation_at_least_and_two_at_most() {
        let mut envelope = Envelope::default();
        let mut add = |delay| {
            envelope.add(Passage { bytes: 0.0, delay }, 1.0);
            envelope.least(1.0).unwrap().delay
        };
        assert_eq!(add(1.0), 1.0);
        for _ in 0..126 {
            assert_eq!(add(2.0), 1.0);
        }
        add(2.0);
        assert_eq!(add(2.0), 2.0);
        assert_eq!(envelope.count(), 129);
    }

    #[test]
    fn passages_of_unequal_size_are_compared_without_their_bytes() {
        let mut envelope = Envelope::default();
        envelope.add(Passage { bytes: 100.0, delay: 2.0 }, 100.0);
        envelope.add(Passage { bytes: 10.0, delay: 1.5 }, 100.0);
        assert_eq!(envelope.least(100.0).unwrap().bytes, 100.0);
    }
}

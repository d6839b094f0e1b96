//! Smallest delay among the recent messages of a link.

use serde::{Deserialize, Serialize};

/// Number of consecutive messages that form a generation. The smallest delay is that of the current and the previous
/// generation.
const GENERATION: u32 = 64;

/// Observed message: its size in bytes, and the seconds between sending and arrival by the clocks of the two ends.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Passage {
    pub(super) bytes: f64,
    pub(super) delay: f64,
}

impl Passage {
    pub(super) fn rest(&self, bandwidth: f64) -> f64 {
        self.delay - self.bytes / bandwidth
    }
}

/// Smallest delay among the last 64 to 128 messages of a link.
///
/// Messages are divided into generations of 64. Only the message with the smallest delay of the current and of the previous generation is stored, so
/// that old messages are forgotten and adding a message is O(1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Envelope {
    this: Option<Passage>,
    last: Option<Passage>,
    in_this: u32,
    count: u64,
    spread: Option<f64>,
}

impl Envelope {
    /// Adds a message. `bandwidth` is the current estimate of the link's bandwidth, with which messages of unequal
    /// size are compared.
    pub(super) fn add(&mut self, passage: Passage, bandwidth: f64) {
        if self.in_this == GENERATION {
            if let (Some(this), Some(last)) = (self.this, self.last) {
                self.spread = Some((this.rest(bandwidth) - last.rest(bandwidth)).abs());
            }
            self.last = self.this.take();
            self.in_this = 0;
        }
        self.in_this += 1;
        self.count += 1;
        self.this = least(self.this, Some(passage), bandwidth);
    }

    pub(super) fn least(&self, bandwidth: f64) -> Option<Passage> {
        least(self.last, self.this, bandwidth)
    }

    /// Returns the difference in seconds between the smallest message delays of the last two complete generations (of
    /// 64 messages). Random waiting times make the smallest delay differ between generations; the delay of the link
    /// itself does not.
    pub(super) fn spread(&self) -> Option<f64> {
        self.spread
    }

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
    fn minimum_is_kept_for_one_to_two_generations() {
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
    fn passages_are_compared_without_their_transfer_time() {
        let mut envelope = Envelope::default();
        envelope.add(Passage { bytes: 100.0, delay: 2.0 }, 100.0);
        envelope.add(Passage { bytes: 10.0, delay: 1.5 }, 100.0);
        assert_eq!(envelope.least(100.0).unwrap().bytes, 100.0);
    }

    #[test]
    fn spread_compares_completed_generations() {
        let mut envelope = Envelope::default();
        for (generation, least) in [3.0, 3.25, 9.0].into_iter().enumerate() {
            for i in 0..64 {
                envelope.add(Passage { bytes: 0.0, delay: least + f64::from(i) }, 1.0);
            }
            assert_eq!(envelope.spread(), [None, None, Some(0.25)][generation]);
        }
        envelope.add(Passage { bytes: 0.0, delay: 0.0 }, 1.0);
        assert_eq!(envelope.spread(), Some(5.75));
    }
}

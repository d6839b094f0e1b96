//! Arrangements (such as mappings) that a stream used earlier, and its last measurements.

use serde::{Deserialize, Serialize};

/// Arrangements (such as mappings) that the stream used earlier. Each has the time at which the stream changed away from it, and its predicted time
/// per item at that time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Left<A> {
    entries: Vec<Entry<A>>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Entry<A> {
    arrangement: A,
    at: f64,
    time: f64,
}

impl<A: PartialEq> Left<A> {
    pub(super) fn new() -> Self {
        Left { entries: Vec::new() }
    }

    pub(super) fn add(&mut self, arrangement: A, now: f64, time: f64, memory: f64) {
        self.entries.retain(|entry| entry.arrangement != arrangement && now - entry.at < memory);
        self.entries.push(Entry { arrangement, at: now, time });
    }

    /// Returns the predicted time per item that `arrangement` had when the stream changed away from it, if that was less than `memory` seconds ago.
    pub(super) fn time_of(&self, arrangement: &A, now: f64, memory: f64) -> Option<f64> {
        let entry = self.entries.iter().find(|entry| entry.arrangement == *arrangement)?;
        (now - entry.at < memory).then_some(entry.time)
    }
}

/// Last values of a series of measurements, of which the median is needed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Recent {
    values: Vec<f64>,
    most: usize,
}

impl Recent {
    pub(super) fn new(most: u32) -> Self {
        Recent { values: Vec::new(), most: most as usize }
    }

    pub(super) fn add(&mut self, value: f64) {
        if self.values.len() == self.most {
            self.values.remove(0);
        }
        self.values.push(value);
    }

    pub(super) fn clear(&mut self) {
        self.values.clear();
    }

    pub(super) fn is_full(&self) -> bool {
        self.values.len() == self.most
    }

    pub(super) fn median(&self) -> Option<f64> {
        let mut sorted = self.values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        match sorted.len() {
            0 => None,
            n if n % 2 == 1 => Some(sorted[middle]),
            _ => Some(0.5 * (sorted[middle - 1] + sorted[middle])),
        }
    }
}

//! What a tuner remembers of the past.

use serde::{Deserialize, Serialize};

/// Arrangements that were left, and how fast they were predicted to be then.
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

    /// `arrangement` was left at `now`, when it was predicted to take `time` for an item. What was left `memory` seconds
    /// ago is forgotten.
    pub(super) fn add(&mut self, arrangement: A, now: f64, time: f64, memory: f64) {
        self.entries.retain(|entry| entry.arrangement != arrangement && now - entry.at < memory);
        self.entries.push(Entry { arrangement, at: now, time });
    }

    /// The time for an item that `arrangement` was predicted to take when it was left, if that was less than
    /// `memory` seconds ago.
    pub(super) fn time_of(&self, arrangement: &A, now: f64, memory: f64) -> Option<f64> {
        let entry = self.entries.iter().find(|entry| entry.arrangement == *arrangement)?;
        (now - entry.at < memory).then_some(entry.time)
    }
}

/// The last few of a series, and their median.
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

    /// None of none; the mean of the middle two of an even number.
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

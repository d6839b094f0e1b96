//! What round trips between rank 0 and idle workers say of the way there and back.

use std::collections::VecDeque;
use std::time::Duration;

/// Round trips that are remembered.
const ROUND_TRIPS: usize = 8;

/// Round trips between rank 0 and idle workers.
#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    empty: VecDeque<f64>,
    /// Bytes on the way there, seconds.
    bulk: VecDeque<(f64, f64)>,
    spent: Duration,
}

impl RoundTrips {
    /// One that was `bytes` long on the way there took `took`.
    pub(super) fn add(&mut self, bytes: usize, took: Duration) {
        self.spent += took;
        let seconds = took.as_secs_f64();
        if bytes == 0 {
            self.empty.push_back(seconds);
        } else {
            self.bulk.push_back((bytes as f64, seconds));
        }
        forget(&mut self.empty);
        forget(&mut self.bulk);
    }

    /// The time of all.
    pub(super) fn spent(&self) -> Duration {
        self.spent
    }

    /// Seconds of an empty one.
    pub(super) fn round(&self) -> Option<f64> {
        self.empty.iter().copied().reduce(f64::min)
    }

    /// Seconds that each byte adds.
    pub(super) fn per_byte(&self) -> f64 {
        let Some(empty) = self.round() else { return 0.0 };
        self.bulk
            .iter()
            .map(|(bytes, took)| ((took - empty) / bytes).max(0.0))
            .reduce(f64::min)
            .unwrap_or(0.0)
    }
}

/// Keeps the newest.
fn forget<T>(values: &mut VecDeque<T>) {
    while values.len() > ROUND_TRIPS {
        values.pop_front();
    }
}

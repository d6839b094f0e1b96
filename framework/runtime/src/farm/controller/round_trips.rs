//! Round trips of messages between rank 0 and idle workers, which measure the latency and the time per byte.

use std::collections::VecDeque;
use std::time::Duration;

const ROUND_TRIPS: usize = 8;

#[derive(Debug, Default)]
pub(super) struct RoundTrips {
    empty: VecDeque<f64>,
    bulk: VecDeque<(f64, f64)>,
    spent: Duration,
}

impl RoundTrips {
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

    pub(super) fn spent(&self) -> Duration {
        self.spent
    }

    pub(super) fn round(&self) -> Option<f64> {
        self.empty.iter().copied().reduce(f64::min)
    }

    pub(super) fn per_byte(&self) -> f64 {
        let Some(empty) = self.round() else { return 0.0 };
        self.bulk
            .iter()
            .map(|(bytes, took)| ((took - empty) / bytes).max(0.0))
            .reduce(f64::min)
            .unwrap_or(0.0)
    }
}

fn forget<T>(values: &mut VecDeque<T>) {
    while values.len() > ROUND_TRIPS {
        values.pop_front();
    }
}

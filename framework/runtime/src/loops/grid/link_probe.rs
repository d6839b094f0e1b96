//! On rank 0, before the first sweep: what a message to the next rank costs.

use std::time::Duration;

/// How many messages there and back are timed; the shortest time counts, as other load only makes them longer.
const PROBES: u32 = 4;

/// Times messages to a rank and back: some without content, then as many of a length.
#[derive(Debug)]
pub(super) struct LinkProbe {
    /// The rank that answers.
    pub(super) to: usize,
    lengths: [usize; 2],
    /// Seconds one way, by length.
    best: [f64; 2],
    answers: u32,
    since: Duration,
}

impl LinkProbe {
    /// With messages of `bytes` bytes to rank `to`.
    pub(super) fn new(to: usize, bytes: usize) -> Self {
        LinkProbe { to, lengths: [0, bytes], best: [f64::INFINITY; 2], answers: 0, since: Duration::ZERO }
    }

    fn length(&self) -> Option<usize> {
        self.lengths.get((self.answers / PROBES) as usize).copied()
    }

    /// Bytes of the message that leaves now; `None` when all have been timed.
    pub(super) fn ask(&mut self, now: Duration) -> Option<usize> {
        self.since = now;
        self.length()
    }

    /// The answer has come.
    pub(super) fn answered(&mut self, now: Duration) {
        if let Some(best) = self.best.get_mut((self.answers / PROBES) as usize) {
            *best = best.min(now.saturating_sub(self.since).as_secs_f64() / 2.0);
        }
        self.answers += 1;
    }

    /// Seconds of a message without content, and of one with as many bytes as were asked for.
    pub(super) fn costs(&self) -> (f64, f64) {
        (self.best[0], self.best[1])
    }
}

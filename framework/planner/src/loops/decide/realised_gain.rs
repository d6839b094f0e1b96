//! Measured savings of movements of units (loop iterations) between ranks, also of movements that were considered but not made.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::RECENT;
use crate::loops::distribution::{pass_time, reduction};

/// Computes from later rates how much time the last movements of units (loop iterations) have saved: the rates of the ranks give the time of a pass
/// with the old distribution. Movements that were considered but not made are evaluated in the same way, as if they had been made.
///
/// A *trial* is the comparison of a movement's predicted and measured saving, whether or not the movement is made. The trial lasts from the time at
/// which the movement is carried out (or would be) until the time at which the next one would be carried out. This includes the time in which a load
/// has ended while the units are still distributed for it. The predicted saving is the gain times the seconds for which it is expected to last. If
/// loads appear and disappear about as fast as a balancer can react, little of the predicted saving is achieved.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::loops) struct RealisedGain {
    /// Seconds that each evaluated movement saved, and seconds that it was predicted to save.
    finished: VecDeque<(f64, f64)>,
    running: Option<Trial>,
    /// Comparison of the predicted and the measured saving of a decided movement, which begins when the movement is carried out, or would be.
    next: Option<Trial>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::loops) struct Trial {
    before: Vec<u64>,
    after: Vec<u64>,
    gain: f64,
    horizon: Option<f64>,
    /// True if units (loop iterations) move; false for a movement that is considered but not made.
    is_made: bool,
    age: f64,
    saved: f64,
    /// True if this comparison of predicted and measured saving ends at the next reports of the ranks.
    is_ending: bool,
}

impl Trial {
    pub(in crate::loops) fn new(
        before: &[u64],
        after: &[u64],
        gain: f64,
        horizon: Option<f64>,
        is_made: bool,
    ) -> Self {
        let (before, after) = (before.to_vec(), after.to_vec());
        Trial { before, after, gain, horizon, is_made, age: 0.0, saved: 0.0, is_ending: false }
    }

    fn promised(&self) -> f64 {
        self.gain * self.horizon.unwrap_or(self.age)
    }

    fn promised_so_far(&self) -> f64 {
        self.gain * self.horizon.map_or(self.age, |horizon| horizon.min(self.age))
    }

    /// Adds `seconds` in which the ranks had the units (loop iterations) `held` and the given rates. Returns false if `held` is neither the
    /// distribution before nor that after the movement.
    fn follow(&mut self, seconds: f64, held: &[u64], rates: &[f64]) -> bool {
        if held != self.before && held != self.after {
            return false;
        }
        let time = |units: &[u64]| pass_time(units, rates);
        let passes = seconds / time(held);
        let saved = passes * (time(&self.before) - time(&self.after));
        // The saving is infinite or NaN if a rank with units (loop iterations) did nothing at all; these seconds are then ignored.
        if saved.is_finite() {
            self.saved += saved;
            self.age += seconds;
        }
        true
    }
}

impl RealisedGain {
    pub(in crate::loops) fn follow(&mut self, seconds: f64, held: &[u64], rates: &[f64]) {
        if let Some(mut trial) = self.running.take()
            && trial.follow(seconds, held, rates)
        {
            if trial.is_ending {
                self.finish(&trial);
            } else {
                self.running = Some(trial);
            }
        }
        if self.running.is_none() && self.next.as_ref().is_some_and(|next| !next.is_made) {
            self.running = self.next.take();
        }
    }

    /// Compares the distribution after the movement whose saving is being measured with `target`, the distribution that fits the smoothed rates. If
    /// `target` saves at least the threshold, the measurement ends at the next reports of the ranks.
    pub(in crate::loops) fn compare(&mut self, target: &[u64], rates: &[f64], threshold: f64) {
        if let Some(trial) = &mut self.running {
            let gain = reduction(&trial.after, target, rates);
            trial.is_ending |= gain > 0.0 && gain >= threshold;
        }
    }

    pub(in crate::loops) fn begin(&mut self, trial: Trial) {
        if trial.is_made {
            // If the movement whose saving is being measured was only considered, its measurement ends, because units (loop iterations) really move
            // now.
            if let Some(before) = self.running.take_if(|running| !running.is_made) {
                self.finish(&before);
            }
            self.next = Some(trial);
        } else if self.next.is_none() && self.running.as_ref().is_none_or(|running| running.is_ending) {
            self.next = Some(trial);
        }
    }

    pub(in crate::loops) fn moved(&mut self) {
        if let Some(next) = self.next.take_if(|next| next.is_made) {
            if let Some(before) = self.running.take() {
                self.finish(&before);
            }
            self.running = Some(next);
        }
    }

    pub(in crate::loops) fn abandoned(&mut self) {
        self.next = None;
    }

    /// Returns the fraction of their predicted savings that the last movements achieved, from 0 to 1. `None` before the measurement of a first
    /// movement has ended, or ends at the next reports of the ranks.
    pub(in crate::loops) fn kept(&self) -> Option<f64> {
        let running = self.running.iter().map(|trial| {
            (trial.saved, if trial.is_ending { trial.promised() } else { trial.promised_so_far() })
        });
        if self.finished.is_empty() && !self.running.as_ref().is_some_and(|trial| trial.is_ending) {
            return None;
        }
        let (saved, promised) = self
            .finished
            .iter()
            .copied()
            .chain(running)
            .fold((0.0, 0.0), |(saved, promised), (s, p)| (saved + s, promised + p));
        Some(if promised > 0.0 { (saved / promised).clamp(0.0, 1.0) } else { 1.0 })
    }

    fn finish(&mut self, trial: &Trial) {
        if trial.age == 0.0 {
            return;
        }
        if self.finished.len() == RECENT {
            self.finished.pop_front();
        }
        self.finished.push_back((trial.saved, trial.promised()));
    }
}

//! What movements have really saved, and what those that were not made would have.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::RECENT;
use crate::loops::distribution::{pass_time, reduction};

/// Tells, as rates come in, what the last movements have saved: the ranks' rates say how long a pass would have taken
/// with the units as they were before. Movements that were held back are followed in the same way, as if they had been
/// made.
///
/// A *trial* is a movement, or one that was held back, from the interaction at which it is, or would be, carried out, until
/// the next would be. That includes the time in which a load has gone already, and the units are still where they suited
/// it. What is promised is that the gain lasts as long as was expected; where loads come and go about as fast as a balancer
/// can follow, little of it is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(in crate::loops) struct RealisedGain {
    /// Seconds saved, and seconds promised.
    finished: VecDeque<(f64, f64)>,
    running: Option<Trial>,
    /// Decided, and carried out at the next interaction.
    next: Option<Trial>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(in crate::loops) struct Trial {
    before: Vec<u64>,
    after: Vec<u64>,
    gain: f64,
    /// Seconds for which the gain was expected to last.
    horizon: Option<f64>,
    /// False if it was held back.
    is_made: bool,
    age: f64,
    saved: f64,
    /// Whether it ends with the next interaction.
    is_ending: bool,
}

impl Trial {
    /// Units go, or would go, from `before` to `after`, which promises `gain` for `horizon` seconds.
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

    /// What has been promised up to now, while it is not known how long it will last.
    fn promised_so_far(&self) -> f64 {
        self.gain * self.horizon.map_or(self.age, |horizon| horizon.min(self.age))
    }

    /// `seconds` have passed, in which ranks with these units had these rates. False if the units are neither as before nor
    /// as after.
    fn follow(&mut self, seconds: f64, held: &[u64], rates: &[f64]) -> bool {
        if held != self.before && held != self.after {
            return false;
        }
        let time = |units: &[u64]| pass_time(units, rates);
        let passes = seconds / time(held);
        let saved = passes * (time(&self.before) - time(&self.after));
        // Nothing can be said of a time in which a rank did nothing at all.
        if saved.is_finite() {
            self.saved += saved;
            self.age += seconds;
        }
        true
    }
}

impl RealisedGain {
    /// `seconds` have passed since the last interaction or movement, in which ranks with these units had these rates.
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

    /// By smoothed rates units should be as in `target`. Where that saves more than the threshold against what is being
    /// tried, the next interaction ends it.
    pub(in crate::loops) fn compare(&mut self, target: &[u64], rates: &[f64], threshold: f64) {
        if let Some(trial) = &mut self.running {
            let gain = reduction(&trial.after, target, rates);
            trial.is_ending |= gain > 0.0 && gain >= threshold;
        }
    }

    /// A movement was decided, or held back.
    pub(in crate::loops) fn begin(&mut self, trial: Trial) {
        if trial.is_made {
            // What was followed as if it had been made is now made, or something else is.
            if let Some(before) = self.running.take_if(|running| !running.is_made) {
                self.finish(&before);
            }
            self.next = Some(trial);
        } else if self.next.is_none() && self.running.as_ref().is_none_or(|running| running.is_ending) {
            self.next = Some(trial);
        }
    }

    /// The movement that was decided has been made.
    pub(in crate::loops) fn moved(&mut self) {
        if let Some(next) = self.next.take_if(|next| next.is_made) {
            if let Some(before) = self.running.take() {
                self.finish(&before);
            }
            self.running = Some(next);
        }
    }

    /// The movement that was decided will not be made.
    pub(in crate::loops) fn abandoned(&mut self) {
        self.next = None;
    }

    /// The part of what was promised that was kept, from 0 to 1; `None` before the first trial has ended, or is known to end.
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

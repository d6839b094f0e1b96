//! What came of a change.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::{Percent, Seconds};

/// What a change was predicted to bring, and what was seen where items leave.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// When the change was decided (s).
    pub decided: f64,
    /// When it was in force (s).
    pub in_force: f64,
    /// When this was judged (s).
    pub judged: f64,
    /// Seconds that the change was expected to cost.
    pub expected_cost: f64,
    /// Seconds that it did cost.
    pub cost: f64,
    /// Seconds for an item, predicted before the change.
    pub predicted_before: f64,
    /// Seconds for an item, predicted after it.
    pub predicted_after: f64,
    /// Seconds for an item, measured in the last periods before the decision, if items left in them.
    pub measured_before: Option<f64>,
    /// Seconds for an item, measured in the first whole periods after the change.
    pub measured_after: f64,
}

impl Outcome {
    /// The part of the time for an item that was predicted to be saved.
    pub fn predicted_gain(&self) -> f64 {
        1.0 - self.predicted_after / self.predicted_before
    }

    /// The part of the time for an item that was seen to be saved.
    pub fn measured_gain(&self) -> Option<f64> {
        self.measured_before.map(|before| 1.0 - self.measured_after / before)
    }

    /// True if at least half of the predicted gain was seen, or nothing was seen before to compare with.
    pub fn is_kept(&self) -> bool {
        self.measured_gain().is_none_or(|gain| gain >= 0.5 * self.predicted_gain())
    }
}

/// The outcome as a sentence.
impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the change cost {} ({} expected); predicted {} → {} an item (gain {}), measured ",
            Seconds(self.cost),
            Seconds(self.expected_cost),
            Seconds(self.predicted_before),
            Seconds(self.predicted_after),
            Percent(self.predicted_gain()),
        )?;
        match (self.measured_before, self.measured_gain()) {
            (Some(before), Some(gain)) => {
                write!(f, "{} → {} (gain {})", Seconds(before), Seconds(self.measured_after), Percent(gain))
            }
            _ => write!(f, "{} after it", Seconds(self.measured_after)),
        }
    }
}

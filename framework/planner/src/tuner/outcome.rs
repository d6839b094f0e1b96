//! Measured effect of a change of the arrangement of a stream (such as its mapping).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number_format::{Percent, Seconds};

/// Predicted and measured effect of a change of the arrangement of a stream (such as its mapping). Measurements are taken where items leave the
/// stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChangeOutcome {
    /// Time in seconds at which the change of the arrangement (such as the mapping) was decided.
    pub decided: f64,
    /// Time in seconds from which on the new arrangement (such as a mapping) was used.
    #[serde(rename = "in_force")]
    pub effective_from: f64,
    /// Time in seconds at which the effect of the change was evaluated.
    pub judged: f64,
    /// Expected cost of the change, in seconds.
    pub expected_cost: f64,
    /// Actual cost of the change, in seconds.
    pub cost: f64,
    /// Predicted seconds per item before the change.
    pub predicted_before: f64,
    /// Predicted seconds per item after the change.
    pub predicted_after: f64,
    /// Measured seconds per item in the last measuring periods before the decision; `None` if no item left the stream in them.
    pub measured_before: Option<f64>,
    /// Measured seconds per item in the first whole measuring periods after the change.
    pub measured_after: f64,
}

impl ChangeOutcome {
    /// Returns the saving that was predicted for the change, as a fraction of the time per item.
    pub fn predicted_gain(&self) -> f64 {
        1.0 - self.predicted_after / self.predicted_before
    }

    /// Returns the saving of the change that was measured, as a fraction of the time per item; `None` without a measurement before the change.
    pub fn measured_gain(&self) -> Option<f64> {
        self.measured_before.map(|before| 1.0 - self.measured_after / before)
    }

    /// Returns true if the measured gain is at least half of the predicted gain, or if there is no measurement before the change.
    pub fn is_kept(&self) -> bool {
        self.measured_gain().is_none_or(|gain| gain >= 0.5 * self.predicted_gain())
    }
}

impl fmt::Display for ChangeOutcome {
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

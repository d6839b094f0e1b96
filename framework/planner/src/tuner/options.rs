//! Options of a tuner, which decides whether a running stream changes its arrangement (such as its mapping).

use serde::{Deserialize, Serialize};

use crate::error::{Error, ErrorKind, Result};

/// Options of a [`Tuner`](super::Tuner). The defaults are for looks (comparisons of a candidate with the current arrangement) about one second apart.
///
/// ```
/// use armature_planner::tuner::TunerOptions;
///
/// let eager = TunerOptions { threshold: 0.05, persistence: 1, ..TunerOptions::default() };
/// eager.validate()?;
/// assert!(TunerOptions { threshold: -1.0, ..eager }.validate().is_err());
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TunerOptions {
    /// False if the tuner never changes the arrangement of the stream (such as its mapping), but still evaluates candidates and reports its
    /// decisions.
    pub enabled: bool,
    /// Minimum saving of a change of the arrangement (such as the mapping), called its gain, as a fraction of the current time per item; at least 0
    /// and less than 1.
    pub threshold: f64,
    /// Minimum ratio of the seconds that a change of the arrangement (such as the mapping) is expected to save to the seconds that it costs; 0 or
    /// more.
    pub margin: f64,
    /// Number of consecutive looks (comparisons of a candidate with the current arrangement) in which the gain and the profit of a candidate must be
    /// large enough; at least 1.
    pub persistence: u32,
    /// Gain, as a fraction of the current time per item, that leads to the first change already after two looks (comparisons of a candidate with the
    /// current arrangement); at least 0 and less than 1. With `None` no gain is large enough.
    pub decisive: Option<f64>,
    /// Number of consecutive looks (comparisons of a candidate with the current arrangement), at least 1, after which a gain of half of the threshold
    /// is enough for a change; with `None` it is never enough. The option does not apply to arrangements that the stream used earlier.
    pub patience: Option<u32>,
    /// Minimum pause after a change of the arrangement (such as the mapping), in seconds; 0 or more.
    pub cool_down: f64,
    /// Minimum pause after a change of the arrangement (such as the mapping), as a multiple of the cost of the change; 0 or more.
    pub cool_down_costs: f64,
    /// Factor by which the minimum gain is higher for a return to an arrangement (such as a mapping) that the stream used earlier; 1 or more.
    pub return_factor: f64,
    /// Time in seconds for which the tuner remembers an arrangement (such as a mapping) after the stream has changed away from it; 0 or more.
    pub memory: f64,
    /// Number of measuring periods after a change over which its effect is measured; at least 1.
    pub outcome_periods: u32,
}

impl Default for TunerOptions {
    fn default() -> Self {
        TunerOptions {
            enabled: true,
            threshold: 0.10,
            margin: 1.5,
            persistence: 3,
            decisive: None,
            patience: None,
            cool_down: 3.0,
            cool_down_costs: 10.0,
            return_factor: 2.0,
            memory: 600.0,
            outcome_periods: 3,
        }
    }
}

impl TunerOptions {
    /// Returns options with which a tuner never changes the stream. It still evaluates candidates and records its decisions, which can be compared
    /// with those of an active tuner.
    pub fn off() -> Self {
        TunerOptions { enabled: false, ..TunerOptions::default() }
    }

    /// Checks that every option of the tuner is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Options`] with the first number that is outside the range in the description of its field.
    pub fn validate(&self) -> Result<()> {
        let invalid = |message: String| Err(Error::new(ErrorKind::Options, message));
        if !(0.0..1.0).contains(&self.threshold) {
            return invalid(format!(
                "the threshold must be at least 0 and less than 1, but is {}",
                self.threshold
            ));
        }
        if let Some(decisive) = self.decisive
            && !(0.0..1.0).contains(&decisive)
        {
            return invalid(format!(
                "the decisive gain must be at least 0 and less than 1, but is {decisive}"
            ));
        }
        let zero_or_more = [
            ("margin", self.margin, 0.0),
            ("cool_down", self.cool_down, 0.0),
            ("cool_down_costs", self.cool_down_costs, 0.0),
            ("return_factor", self.return_factor, 1.0),
            ("memory", self.memory, 0.0),
        ];
        for (name, value, least) in zero_or_more {
            if !(value >= least && value.is_finite()) {
                return invalid(format!("{name} must be a number of at least {least}, but is {value}"));
            }
        }
        let counts = [
            ("persistence", Some(self.persistence)),
            ("patience", self.patience),
            ("outcome_periods", Some(self.outcome_periods)),
        ];
        for (name, value) in counts {
            if value == Some(0) {
                return invalid(format!("{name} must be at least 1"));
            }
        }
        Ok(())
    }
}

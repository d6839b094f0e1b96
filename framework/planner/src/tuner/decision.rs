//! Input and decisions of a tuner.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number_format::{Percent, Seconds};

/// State of a stream at one look, which is a comparison of a candidate with the current arrangement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation<A> {
    /// Time of the look in seconds, on any monotonic clock that all times of the tuner share.
    pub now: f64,
    /// Length in seconds of the period before `now` in which `measured_time` was measured.
    pub period: f64,
    /// Seconds since the stream began.
    pub elapsed: f64,
    /// Current arrangement.
    pub current: A,
    /// Predicted seconds per item in the current arrangement, with the latest measurements.
    pub current_time: f64,
    /// Measured seconds per item where items leave the stream, over the last period; `None` if no item has left the stream. The value affects
    /// no decision; predictions are compared with it.
    pub measured_time: Option<f64>,
    /// Number of remaining items, if it is known.
    pub remaining_items: Option<u64>,
    /// False while measurements that the predictions need are missing or unusable.
    pub settled: bool,
}

/// Arrangement that could replace the current one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate<A> {
    /// The arrangement.
    pub arrangement: A,
    /// Predicted seconds per item, with the same model and measurements as `current_time`.
    pub time: f64,
    /// Seconds that the stream loses during the change.
    pub cost: f64,
}

/// Action that the tuner decided on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Change to the candidate.
    Act,
    /// Keep the current arrangement.
    Keep(Reason),
}

/// Reason why the current arrangement is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Balancing is switched off.
    Off,
    /// An earlier change is not complete.
    UnderWay,
    /// There is no candidate, or the candidate is the current arrangement.
    Same,
    /// The pause after the last change has not ended.
    CoolingDown {
        /// End of the pause, in seconds.
        until: f64,
    },
    /// Measurements are missing, unusable, or older than the last change.
    NotSettled,
    /// The gain is not large enough for the small number of measurements.
    Unsure,
    /// The gain is below the threshold.
    GainTooSmall,
    /// The gain would be enough for a new arrangement, but not for one that was left.
    ReturnTooSoon,
    /// The gain does not save enough over the horizon to pay for the change.
    NotWorthCost,
    /// Both tests passed, but not in enough consecutive checks.
    NotPersistent {
        /// Number of consecutive checks in which both tests passed.
        seen: u32,
        /// Number of consecutive checks in which both tests must pass.
        needed: u32,
    },
}

/// Result of one look: its input and the decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision<A> {
    /// State of the stream.
    pub situation: Situation<A>,
    /// Evaluated arrangement, if there was one.
    pub candidate: Option<Candidate<A>>,
    /// 1 − candidate's time / current time; 0 without a candidate or without usable times.
    pub gain: f64,
    /// Minimum gain for this candidate; higher for an arrangement that was left.
    pub threshold: f64,
    /// Expected remaining time of the stream in seconds, for which the gain lasts.
    pub horizon: f64,
    /// Saving in seconds: gain × horizon.
    pub benefit: f64,
    /// Limit in seconds that the saving must exceed: margin × cost.
    pub price: f64,
    /// Number of consecutive checks, including this one, in which both tests passed; if [`patience`](super::TunerOptions::patience) is set, with half
    /// of the threshold.
    #[serde(rename = "looks")]
    pub confirmations: u32,
    /// Action to take.
    #[serde(rename = "verdict")]
    pub action: Action,
}

impl<A> Decision<A> {
    /// Returns true if the candidate is to replace the current arrangement.
    pub fn is_act(&self) -> bool {
        self.action == Action::Act
    }

    /// Returns the reason to keep the arrangement, without the savings of the candidate; `None` if the arrangement changes.
    pub fn reason(&self) -> Option<String> {
        let Action::Keep(reason) = self.action else { return None };
        Some(match reason {
            Reason::Off => "balancing is switched off".to_string(),
            Reason::UnderWay => "an earlier change is not yet in effect".to_string(),
            Reason::Same => {
                format!("no candidate is faster than {} an item", Seconds(self.situation.current_time))
            }
            Reason::CoolingDown { .. } => "the last change is too recent".to_string(),
            Reason::NotSettled => "there are not enough measurements yet".to_string(),
            Reason::Unsure => "there are too few measurements to trust a gain of this size".to_string(),
            Reason::GainTooSmall => format!("the gain is below the threshold of {}", Percent(self.threshold)),
            Reason::ReturnTooSoon => format!(
                "this arrangement was left, and to return to it takes a gain of {}",
                Percent(self.threshold)
            ),
            Reason::NotWorthCost => {
                format!("the saving must exceed {}", Seconds(self.price))
            }
            Reason::NotPersistent { seen, needed } => {
                format!("the gain was seen in {seen} of {needed} consecutive checks")
            }
        })
    }

    /// Returns savings and cost of the candidate as a sentence; `None` without a candidate.
    pub fn savings(&self) -> Option<String> {
        let candidate = self.candidate.as_ref()?;
        Some(format!(
            "{} an item becomes {} (gain {}), which saves {} of the remaining {} for a cost of {}",
            Seconds(self.situation.current_time),
            Seconds(candidate.time),
            Percent(self.gain),
            Seconds(self.benefit),
            Seconds(self.horizon),
            Seconds(candidate.cost)
        ))
    }
}

/// Formats the decision as a sentence, without the arrangements.
impl<A> fmt::Display for Decision<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            None => f.write_str("change")?,
            Some(reason) => write!(f, "keep: {reason}")?,
        }
        let to_wait = match self.action {
            Action::Keep(Reason::UnderWay | Reason::Same | Reason::NotSettled) => return Ok(()),
            Action::Keep(Reason::CoolingDown { until }) => {
                Some(format!("{} to wait", Seconds(until - self.situation.now)))
            }
            _ => None,
        };
        let mut separator = if self.is_act() { ": " } else { "; " };
        for part in to_wait.into_iter().chain(self.savings()) {
            write!(f, "{separator}{part}")?;
            separator = "; ";
        }
        Ok(())
    }
}

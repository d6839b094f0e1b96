//! Input and decisions of a tuner, which decides whether a running stream changes its arrangement (such as its mapping).

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::number_format::{Percent, Seconds};

/// State of a stream at one look (comparison of a candidate with the current arrangement, such as a mapping or a number of workers).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation<A> {
    /// Time of this comparison of the candidate with the current arrangement, in seconds on any monotonic clock that all times of the tuner share.
    pub now: f64,
    /// Length in seconds of the period before `now` in which `measured_time` was measured.
    pub period: f64,
    /// Seconds since the stream began.
    pub elapsed: f64,
    /// Current arrangement of the stream (such as a mapping or a number of workers).
    pub current: A,
    /// Predicted seconds per item in the current arrangement, with the latest measurements.
    pub current_time: f64,
    /// Measured seconds per item at the end of the stream, over the last period; `None` if no item has left the stream. The value affects no
    /// decision; the predictions are compared with it in the outcome of a change.
    pub measured_time: Option<f64>,
    /// Number of items that have not left the stream, if it is known.
    pub remaining_items: Option<u64>,
    /// False while measurements that the predictions need are missing or unusable.
    pub settled: bool,
}

/// Arrangement (such as a mapping or a number of workers) that could replace the current one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate<A> {
    /// Arrangement to which the stream could change (such as a mapping or a number of workers).
    pub arrangement: A,
    /// Predicted seconds per item if the stream changes to the candidate, with the same model and measurements as
    /// [`current_time`](Situation::current_time).
    pub time: f64,
    /// Seconds that the stream loses while it changes to the candidate.
    pub cost: f64,
}

/// Action that a tuner decided on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Change to the candidate, such as another mapping or number of workers.
    Act,
    /// Keep the current arrangement (such as the mapping), for this reason.
    Keep(Reason),
}

/// Reason why a tuner keeps the current arrangement (such as the mapping) of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// The tuner is switched off: its option [`enabled`](super::TunerOptions::enabled) is false.
    Off,
    /// An earlier change of the arrangement (such as the mapping) is not complete.
    UnderWay,
    /// No other arrangement was proposed (there is no candidate), or the candidate is the current arrangement.
    Same,
    /// The pause after the last change of the arrangement (such as the mapping) has not ended.
    CoolingDown {
        /// Time on the tuner's clock at which the pause ends, in seconds.
        until: f64,
    },
    /// Measurements are missing, unusable, or older than the last change of the arrangement (such as the mapping).
    NotSettled,
    /// The time per item that the candidate saves (its gain) is too small to be trusted after few measurements.
    Unsure,
    /// The time per item that the candidate saves (its gain) is below the [threshold](super::TunerOptions::threshold).
    GainTooSmall,
    /// The stream has used the candidate before and changed away from it. The gain would be enough only for a candidate that it has not used yet.
    ReturnTooSoon,
    /// The candidate saves too little time until the expected end of the stream to pay for the change.
    NotWorthCost,
    /// The candidate's gain and profit were large enough, but not in enough consecutive looks (comparisons with the current arrangement).
    NotPersistent {
        /// Number of consecutive looks (comparisons with the current arrangement) in which gain and profit of a candidate were large enough.
        seen: u32,
        /// Number of consecutive looks (comparisons with the current arrangement) in which gain and profit of a candidate must be large enough.
        needed: u32,
    },
}

/// Result of one look of the tuner (comparison of a candidate with the current arrangement): the input and the decision.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision<A> {
    /// State of the stream at the look (the comparison of a candidate with the current arrangement).
    pub situation: Situation<A>,
    /// Arrangement (such as a mapping) that was compared with the current one, if there was one.
    pub candidate: Option<Candidate<A>>,
    /// Fraction of the time per item that the candidate saves: 1 − its predicted time / current time; 0 without a candidate or without usable times.
    pub gain: f64,
    /// Minimum gain for this candidate, as a fraction of the time per item; higher if the stream has used the candidate before and changed away from
    /// it.
    pub threshold: f64,
    /// Expected remaining time of the stream in seconds, during which the candidate saves time.
    pub horizon: f64,
    /// Seconds that the change is expected to save: `gain` × `horizon`.
    pub benefit: f64,
    /// Seconds that the saving must exceed: the option [`margin`](super::TunerOptions::margin) × the cost of the change.
    pub price: f64,
    /// Number of consecutive looks (comparisons with the current arrangement), including this one, in which gain and profit of a candidate were large
    /// enough. If [`patience`](super::TunerOptions::patience) is set, a gain of half of the threshold counts too.
    #[serde(rename = "looks")]
    pub confirmations: u32,
    /// Action to take: change to the candidate, or keep the current arrangement (such as the mapping) for a reason.
    #[serde(rename = "verdict")]
    pub action: Action,
}

impl<A> Decision<A> {
    /// Returns true if the decision is to change to the candidate.
    pub fn is_act(&self) -> bool {
        self.action == Action::Act
    }

    /// Returns, as text, the reason to keep the current arrangement (such as the mapping), without the savings of the candidate; `None` if the stream
    /// changes to the candidate.
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

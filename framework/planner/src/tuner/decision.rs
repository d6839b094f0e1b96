//! What a tuner is told at a look, and what it says.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::words::{Percent, Seconds};

/// A stream as it stands at one look.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Situation<A> {
    /// Seconds on any clock that does not go back; all times of a tuner are on the same one.
    pub now: f64,
    /// Length of the period that `measured_time` was taken over, in seconds up to now.
    pub period: f64,
    /// Seconds since the stream began.
    pub elapsed: f64,
    /// The arrangement in force.
    pub current: A,
    /// Seconds for an item, predicted for the present arrangement with today's measurements.
    pub current_time: f64,
    /// Seconds for an item as seen where items leave, over the last period, if any left. It decides nothing; it is
    /// what predictions are held against.
    pub measured_time: Option<f64>,
    /// Items still to come, if their number is known.
    pub remaining_items: Option<u64>,
    /// False while measurements that the predictions need are still missing or of no use.
    pub settled: bool,
}

/// An arrangement that could replace the present one.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Candidate<A> {
    /// The arrangement.
    pub arrangement: A,
    /// Seconds for an item, predicted with the same model and measurements as `current_time`.
    pub time: f64,
    /// Seconds that the stream loses by the change.
    pub cost: f64,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Change to the candidate.
    Act,
    /// Leave the arrangement as it is.
    Keep(Reason),
}

/// Why an arrangement is kept.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Reason {
    /// Balancing is switched off.
    Off,
    /// An earlier change is not in force yet.
    UnderWay,
    /// There is no candidate, or it is the present arrangement.
    Same,
    /// A change was made not long ago.
    CoolingDown {
        /// When the pause ends (s).
        until: f64,
    },
    /// Measurements are missing, of no use, or older than the last change.
    NotSettled,
    /// The gain is not large, and there are only a few measurements.
    Unsure,
    /// The gain is below the threshold.
    GainTooSmall,
    /// The gain is enough for another arrangement, but not for one that was left.
    ReturnTooSoon,
    /// Over the horizon, the gain does not save enough to pay for the change.
    NotWorthCost,
    /// Both tests hold, but not for long enough.
    NotPersistent {
        /// Looks in a row in which they held.
        seen: u32,
        /// Looks in a row in which they must hold.
        needed: u32,
    },
}

/// One look: everything that went in, and what came of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Decision<A> {
    /// The stream as it stood.
    pub situation: Situation<A>,
    /// The arrangement that was judged, if there was one.
    pub candidate: Option<Candidate<A>>,
    /// 1 − candidate's time / present time; 0 without a candidate or usable times.
    pub gain: f64,
    /// Least gain that was asked for; higher for an arrangement that was left.
    pub threshold: f64,
    /// Seconds of stream that the gain is expected to last for.
    pub horizon: f64,
    /// gain × horizon: seconds saved.
    pub benefit: f64,
    /// Seconds that the saving must exceed: margin × cost.
    pub price: f64,
    /// Looks in a row in which both tests held, or would have with half of the threshold where that can be enough; with this one.
    pub looks: u32,
    /// What is to be done.
    pub verdict: Verdict,
}

impl<A> Decision<A> {
    /// True if the candidate is to be put in force.
    pub fn is_act(&self) -> bool {
        self.verdict == Verdict::Act
    }

    /// Why the arrangement is kept, without what the candidate would save; `None` if it is changed.
    pub fn reason(&self) -> Option<String> {
        let Verdict::Keep(reason) = self.verdict else { return None };
        Some(match reason {
            Reason::Off => "balancing is switched off".to_string(),
            Reason::UnderWay => "an earlier change is not in force yet".to_string(),
            Reason::Same => {
                format!("nothing better was found than {} an item", Seconds(self.situation.current_time))
            }
            Reason::CoolingDown { .. } => "the last change was not long ago".to_string(),
            Reason::NotSettled => "there are not enough measurements yet".to_string(),
            Reason::Unsure => "there are too few measurements for such a gain".to_string(),
            Reason::GainTooSmall => format!("the gain is below the threshold of {}", Percent(self.threshold)),
            Reason::ReturnTooSoon => format!(
                "this arrangement was left, and to return to it takes a gain of {}",
                Percent(self.threshold)
            ),
            Reason::NotWorthCost => {
                format!("the saving would have to be more than {}", Seconds(self.price))
            }
            Reason::NotPersistent { seen, needed } => format!("seen in {seen} of {needed} looks in a row"),
        })
    }

    /// What the candidate saves and costs, as a sentence; `None` without a candidate.
    pub fn savings(&self) -> Option<String> {
        let candidate = self.candidate.as_ref()?;
        Some(format!(
            "{} an item becomes {} (gain {}), which saves {} of the {} ahead for a cost of {}",
            Seconds(self.situation.current_time),
            Seconds(candidate.time),
            Percent(self.gain),
            Seconds(self.benefit),
            Seconds(self.horizon),
            Seconds(candidate.cost)
        ))
    }
}

/// The decision as a sentence, without the arrangements.
impl<A> fmt::Display for Decision<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.reason() {
            None => f.write_str("change")?,
            Some(reason) => write!(f, "keep: {reason}")?,
        }
        let to_wait = match self.verdict {
            Verdict::Keep(Reason::UnderWay | Reason::Same | Reason::NotSettled) => return Ok(()),
            Verdict::Keep(Reason::CoolingDown { until }) => {
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

//! Decision of a loop balancer, after reports of the ranks, whether loop iterations (units) move between ranks.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::loops::moves::Move;
use crate::number_format::{Percent, Seconds};
use crate::tuner::{Action, Reason};

/// Decision of a loop balancer after one report of each rank, with the input of the decision.
///
/// A *pass* is the time in which all units are done once. The action is one of the [tuner](crate::tuner), with these reasons to keep the distribution
/// of units: `Off`, `UnderWay`, `NotSettled` (a rank with units has no rate yet), `Same`, `GainTooSmall`, `Unsure`, `NotWorthCost`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopDecision {
    /// Time of the ranks' reports and of the decision, in seconds on the clock that the caller uses.
    pub now: f64,
    /// Number of units (loop iterations) that each rank has.
    pub held: Vec<u64>,
    /// Smoothed rate of each rank (units/s); empty while a rate is unknown.
    pub rates: Vec<f64>,
    /// Number of units (loop iterations) that each rank should have according to its rate; equal to `held` while rates are unknown.
    pub target: Vec<u64>,
    /// Seconds of a pass (all units once) with the current distribution; `None` if the pass would not end, or rates are unknown.
    pub current_time: Option<f64>,
    /// Seconds of a pass (all units once) with the target distribution; `None` if the pass would not end, or rates are unknown.
    pub target_time: Option<f64>,
    /// Saving of the target distribution as a fraction of the time of a pass, in which all units are done once (`rfract` in the paper of Siegell and
    /// Steenkiste).
    pub gain: f64,
    /// Minimum saving for a movement as a fraction of the time of a pass, in which all units are done once (`tfract` in the paper of Siegell and
    /// Steenkiste).
    pub threshold: f64,
    /// Seconds for which the saving of the target distribution is expected to last; `None` if no end is predicted.
    pub horizon: Option<f64>,
    /// Fraction of the predicted saving that counts, from 0 to 1: the last movements achieved this fraction of their predicted savings. The value is
    /// 1 before the first movement, or if the option [`realised_gain`](crate::loops::LoopOptions::realised_gain) is off.
    pub kept: f64,
    /// Expected seconds that the decided moves take.
    pub cost: f64,
    /// Maximum ratio of the cost of moves to their expected saving; `None` if costs are ignored.
    pub margin: Option<f64>,
    /// Action to take: move units (loop iterations), or keep the distribution for a reason.
    #[serde(rename = "verdict")]
    pub action: Action,
    /// Moves of units (loop iterations) between ranks to make; empty if the distribution is kept.
    pub moves: Vec<Move>,
    /// Time in seconds that should lie between two reports of a rank to the balancer.
    pub period: f64,
    /// Number of phases until the next reports of the ranks. A phase is the time between two hooks (points at which ranks can report).
    pub phases: u64,
}

impl LoopDecision {
    /// Returns true if the decision is to move units (loop iterations).
    pub fn is_act(&self) -> bool {
        self.action == Action::Act
    }

    /// Returns the seconds that the moves are expected to save: `gain` × `horizon` × `kept`; infinite if no end of the gain is predicted.
    pub fn benefit(&self) -> f64 {
        match self.horizon {
            _ if self.gain <= 0.0 || self.kept <= 0.0 => 0.0,
            Some(horizon) => self.gain * horizon * self.kept,
            None => f64::INFINITY,
        }
    }

    /// Returns false if the moves cost more than `margin` times their expected saving. At the end of a loop, where nothing is saved, no move pays,
    /// even if its cost is not known.
    pub fn is_worth_cost(&self) -> bool {
        let benefit = self.benefit();
        self.margin.is_none_or(|margin| benefit > 0.0 && self.cost <= margin * benefit)
    }
}

impl fmt::Display for LoopDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.action {
            Action::Act => {
                let units: u64 = self.moves.iter().map(|m| m.units).sum();
                write!(f, "move {units} units in {} messages: ", self.moves.len())?;
            }
            Action::Keep(reason) => {
                f.write_str("keep: ")?;
                match reason {
                    Reason::Off => f.write_str("balancing is switched off; ")?,
                    Reason::UnderWay => return f.write_str("earlier moves are still in progress"),
                    Reason::NotSettled => return f.write_str("not all ranks have reported a rate yet"),
                    Reason::Same => return f.write_str("the distribution matches the rates of the ranks"),
                    Reason::GainTooSmall => {
                        write!(f, "the gain is below the threshold of {}; ", Percent(self.threshold))?;
                    }
                    Reason::Unsure => {
                        f.write_str("there are too few reports to trust a gain of this size; ")?
                    }
                    Reason::NotWorthCost => f.write_str("the moves cost too much; ")?,
                    // A loop balancer has no other reasons to keep the distribution; the type is shared with the tuner of pipelines and farms, which
                    // has more.
                    other => write!(f, "{other:?}; ")?,
                }
            }
        }
        match (self.current_time, self.target_time) {
            (Some(current), Some(target)) => {
                write!(f, "{} a pass becomes {}", Seconds(current), Seconds(target))?;
            }
            (None, Some(target)) => {
                write!(f, "a pass that would never end takes {}", Seconds(target))?;
            }
            (_, None) => f.write_str("a rank has no units")?,
        }
        write!(f, " (gain {})", Percent(self.gain))?;
        let benefit = Seconds(self.benefit());
        match self.horizon {
            Some(horizon) => {
                write!(f, ", which saves {benefit} of the remaining {}", Seconds(horizon))?;
            }
            None => f.write_str(", with an unknown end")?,
        }
        write!(f, " for a cost of {}", Seconds(self.cost))?;
        if self.kept < 1.0 {
            write!(f, "; earlier moves achieved {:.0} of their predicted gain", Percent(self.kept))?;
        }
        Ok(())
    }
}

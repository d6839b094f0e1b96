//! What a balancer says at an interaction.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::loops::moves::Move;
use crate::tuner::{Reason, Verdict};
use crate::words::{Percent, Seconds};

/// One interaction: everything that went into the decision, and what came of it.
///
/// A *pass* is the time in which all units are done once. The verdict is one of the [tuner's](crate::tuner), with these
/// reasons to keep the units where they are: `Off`, `UnderWay`, `NotSettled` (a rank with units has no rate yet), `Same`,
/// `GainTooSmall`, `Unsure`, `NotWorthCost`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LoopDecision {
    /// Seconds on the clock of the interactions.
    pub now: f64,
    /// Units that each rank has.
    pub held: Vec<u64>,
    /// Smoothed rate of each rank (units/s); empty while some are unknown.
    pub rates: Vec<f64>,
    /// Units that each rank should have by its rate; as they are, while rates are unknown.
    pub target: Vec<u64>,
    /// Seconds of a pass with the units as they are; `None` if it would not end, or rates are unknown.
    pub current_time: Option<f64>,
    /// Seconds of a pass with the target, likewise.
    pub target_time: Option<f64>,
    /// The part of the time that the target saves (`rfract`).
    pub gain: f64,
    /// Least part that was asked for (`tfract`).
    pub threshold: f64,
    /// Seconds for which the gain is expected to last; `None` if no end is in sight.
    pub horizon: Option<f64>,
    /// The part of the gain that counts, from 0 to 1: what the last movements have kept of what they promised; 1 while
    /// there were none, or if that is not asked for.
    pub kept: f64,
    /// Seconds that the moves are expected to take.
    pub cost: f64,
    /// How many times what is saved the costs may be; `None` if they are not weighed.
    pub margin: Option<f64>,
    /// What is to be done.
    pub verdict: Verdict,
    /// The moves, if they are to be made; else empty.
    pub moves: Vec<Move>,
    /// The target period in seconds.
    pub period: f64,
    /// Phases until the next interaction.
    pub phases: u64,
}

impl LoopDecision {
    /// True if units are to be moved.
    pub fn is_act(&self) -> bool {
        self.verdict == Verdict::Act
    }

    /// Seconds saved: gain × horizon × kept; infinite if no end is in sight.
    pub fn benefit(&self) -> f64 {
        match self.horizon {
            _ if self.gain <= 0.0 || self.kept <= 0.0 => 0.0,
            Some(horizon) => self.gain * horizon * self.kept,
            None => f64::INFINITY,
        }
    }

    /// False if the moves cost more than margin × benefit. At the end of a loop, where nothing is saved, no move is
    /// worth anything, whether or not it is known what it costs.
    pub fn is_worth_cost(&self) -> bool {
        let benefit = self.benefit();
        self.margin.is_none_or(|margin| benefit > 0.0 && self.cost <= margin * benefit)
    }
}

/// The decision as a sentence, without the distributions.
impl fmt::Display for LoopDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.verdict {
            Verdict::Act => {
                let units: u64 = self.moves.iter().map(|m| m.units).sum();
                write!(f, "move {units} units in {} messages: ", self.moves.len())?;
            }
            Verdict::Keep(reason) => {
                f.write_str("keep: ")?;
                match reason {
                    Reason::Off => f.write_str("balancing is switched off; ")?,
                    Reason::UnderWay => return f.write_str("earlier moves are not done yet"),
                    Reason::NotSettled => return f.write_str("not all ranks have reported a rate yet"),
                    Reason::Same => return f.write_str("all ranks have what suits their rates"),
                    Reason::GainTooSmall => {
                        write!(f, "the gain is below the threshold of {}; ", Percent(self.threshold))?;
                    }
                    Reason::Unsure => f.write_str("ranks have reported too few times for such a gain; ")?,
                    Reason::NotWorthCost => f.write_str("the moves cost too much; ")?,
                    // A balancer of loops has no other reasons.
                    other => write!(f, "{other:?}; ")?,
                }
            }
        }
        match (self.current_time, self.target_time) {
            (Some(current), Some(target)) => {
                write!(f, "{} a pass becomes {}", Seconds(current), Seconds(target))?;
            }
            (None, Some(target)) => {
                write!(f, "a pass that would not end becomes {}", Seconds(target))?;
            }
            (_, None) => f.write_str("a rank does nothing at present")?,
        }
        write!(f, " (gain {})", Percent(self.gain))?;
        let benefit = Seconds(self.benefit());
        match self.horizon {
            Some(horizon) => {
                write!(f, ", which saves {benefit} of the {} ahead", Seconds(horizon))?;
            }
            None => f.write_str(", with no end in sight")?,
        }
        write!(f, " for a cost of {}", Seconds(self.cost))?;
        if self.kept < 1.0 {
            write!(f, "; moves before kept {:.0} of what they promised", Percent(self.kept))?;
        }
        Ok(())
    }
}

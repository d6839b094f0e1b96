//! How a loop is balanced.

use serde::{Deserialize, Serialize};

use super::invalid;
use super::moves::Reach;
use crate::error::Result;
use crate::loops::decide::cost_benefit::MovementCosts;
use crate::loops::decide::period::PeriodOptions;
use crate::loops::rates::filter::Smoothing;
use crate::range::{self, AMOUNT, POSITIVE};

/// How a [`LoopBalancer`](super::LoopBalancer) decides; the defaults are the paper's, but for
/// [`realised_gain`](LoopOptions::realised_gain), which it does not have.
///
/// ```
/// use armature_planner::loops::{LoopOptions, Reach, Smoothing};
///
/// let options = LoopOptions { reach: Reach::Neighbours, ..LoopOptions::default() };
/// options.validate()?;
/// assert_eq!((options.threshold, options.margin), (0.1, Some(2.0)));
/// let wrong = LoopOptions { smoothing: Smoothing::Fixed(1.5), ..options };
/// assert_eq!(wrong.validate().unwrap_err().to_string(), "loop: the part of history must be from 0 to 1, but is 1.5");
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LoopOptions {
    /// False: nothing is ever moved, but every look is still judged and told.
    pub enabled: bool,
    /// Where units may go.
    pub reach: Reach,
    /// How rates are smoothed.
    pub smoothing: Smoothing,
    /// How many reports of a rank are awaited; those from the second on are put together, and their rate is taken for that
    /// of the rank; only later ones are smoothed. Until all ranks have that number, a movement must save two fifths, and none is
    /// made while a rank has a single one. At least 1. `None` is 1, as in the paper; in loops over grids it is 4: first
    /// reports are of cold caches and connections that are made, and of rows whose rates depend on the width of strips,
    /// and smoothing would hold to a wrong first rate for long.
    pub settling: Option<u32>,
    /// Least saving, as a part of the present time (`tfract`); at least 0 and less than 1.
    pub threshold: f64,
    /// How many times what moves are expected to save they may cost; more than 0. Others are not made. The paper
    /// says only that costs must *greatly exceed* benefits; 2 is a reconstruction. `None`: costs are not weighed.
    pub margin: Option<f64>,
    /// Whether what past movements have really saved is counted, too. The paper has nothing of the kind: it weighs what
    /// is promised. Where a load comes and goes about as fast as the balancer follows, that moves units again and again
    /// for nothing, most of all on two ranks. With this, rates tell afterwards what each movement has saved, or would
    /// have if it was held back; of what the next one promises, the part counts that the last ones have kept, and costs
    /// may not be more than that.
    pub realised_gain: bool,
    /// Whatever the threshold, moves are made too that cost no more than this part of what they save in the pass that is
    /// running, once it is known what moves cost; at least 0. The paper has nothing of the kind: the threshold is for moves
    /// that pay by and by, if nothing changes, and these have paid by the end of the pass. `None` is 0, no such moves; in
    /// loops in which units move during a pass it is a tenth.
    pub at_once: Option<f64>,
    /// Units that each rank keeps at least, where there are enough.
    pub least: u64,
    /// What a movement is taken to cost before there was any. The default, nothing, lets the first happen, which
    /// tells.
    pub costs: MovementCosts,
    /// How often rates are looked at.
    pub period: PeriodOptions,
}

impl Default for LoopOptions {
    fn default() -> Self {
        LoopOptions {
            enabled: true,
            reach: Reach::default(),
            smoothing: Smoothing::default(),
            settling: None,
            threshold: 0.1,
            margin: Some(2.0),
            realised_gain: true,
            at_once: None,
            least: 1,
            costs: MovementCosts::default(),
            period: PeriodOptions::default(),
        }
    }
}

impl LoopOptions {
    /// Looks and tells, but never moves anything: what balancing is compared with.
    pub fn off() -> Self {
        LoopOptions { enabled: false, ..LoopOptions::default() }
    }

    /// Checks that every number can be used.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) naming the first that is outside the range given with its field.
    pub fn validate(&self) -> Result<()> {
        if !(0.0..1.0).contains(&self.threshold) {
            return invalid(format!(
                "threshold must be at least 0 and less than 1, but is {}",
                self.threshold
            ));
        }
        if let Some(margin) = self.margin
            && !range::is_positive(margin)
        {
            return invalid(format!("margin must be {POSITIVE}, but is {margin}"));
        }
        if let Some(part) = self.at_once
            && !range::is_amount(part)
        {
            return invalid(format!("at_once must be {AMOUNT}, but is {part}"));
        }
        for (name, value) in [("fixed", self.costs.fixed), ("per_unit", self.costs.per_unit)] {
            if !range::is_amount(value) {
                return invalid(format!("{name} of costs in seconds must be {AMOUNT}, but is {value}"));
            }
        }
        if self.settling == Some(0) {
            return invalid("settling must be at least 1 report".into());
        }
        self.smoothing.validate()?;
        self.period.validate()
    }
}

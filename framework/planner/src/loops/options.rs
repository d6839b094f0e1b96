//! Options for the balancing of a parallel loop.

use serde::{Deserialize, Serialize};

use super::invalid;
use super::moves::Reach;
use crate::error::Result;
use crate::loops::decide::cost_benefit::MovementCosts;
use crate::loops::decide::period::PeriodOptions;
use crate::loops::rates::filter::Smoothing;
use crate::range::{self, AMOUNT, POSITIVE};

/// Options of a [`LoopBalancer`](super::LoopBalancer). The defaults are those of the paper of Siegell and Steenkiste, except for
/// [`realised_gain`](LoopOptions::realised_gain), which the paper does not have.
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
    /// False if units (loop iterations) never move, although the balancer still evaluates the reports of the ranks and returns the savings that it
    /// finds.
    pub enabled: bool,
    /// Pairs of ranks between which units (loop iterations) may move.
    pub reach: Reach,
    /// Smoothing of the measured rates of the ranks (units of the loop per second).
    pub smoothing: Smoothing,
    /// Number of first reports of a rank that are combined into its first rate; at least 1. The reports from the second on are combined, and only
    /// later reports are smoothed. Until all ranks have sent this number of reports, a movement must save two fifths of the time, and there is no
    /// movement while a rank has sent a single report. `None` is 1, as in the paper of Siegell and Steenkiste; in loops over grids it is 4. First
    /// reports are affected by cold caches and by connection set-up, and in grids by rows whose rates depend on the width of the strips of columns.
    /// Smoothing would keep a wrong first rate for a long time.
    pub settling: Option<u32>,
    /// Minimum saving for a movement as a fraction of the current time of a pass, in which all units are done once (`tfract` in the paper of Siegell
    /// and Steenkiste); at least 0 and less than 1.
    pub threshold: f64,
    /// Maximum ratio of the cost of moves to their expected saving; more than 0. Moves with a higher ratio are not made. The paper of Siegell and
    /// Steenkiste says only that costs must *greatly exceed* benefits; the value 2 is a guess. With `None`, costs are ignored.
    pub margin: Option<f64>,
    /// True if the decision uses the measured savings of past movements of units (loop iterations) too. The paper of Siegell and Steenkiste weighs
    /// only predicted savings. If a load appears and disappears about as fast as the balancer reacts, predicted savings alone move units again and
    /// again without a benefit, especially on two ranks. With this option, later rates show how much each movement has saved, or would have saved if
    /// it was not made. The predicted saving of the next movement is multiplied by the fraction that the last movements achieved, and its cost must
    /// not exceed the product.
    pub realised_gain: bool,
    /// Minimum number of units (loop iterations) of each rank, if there are enough units.
    pub least: u64,
    /// Expected cost of a movement of units (loop iterations) before the first movement has been measured. The default is 0, which permits the first
    /// movement, and with it a measurement of the cost.
    pub costs: MovementCosts,
    /// Lower limits of the time between two reports of a rank to the balancer.
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
            least: 1,
            costs: MovementCosts::default(),
            period: PeriodOptions::default(),
        }
    }
}

impl LoopOptions {
    /// Returns options with which a balancer evaluates the reports of ranks, but never moves units (loop iterations), for comparison with balancing.
    pub fn off() -> Self {
        LoopOptions { enabled: false, ..LoopOptions::default() }
    }

    /// Checks that every option is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) with the first number that is outside the range in the description of its field.
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

//! How often ranks report and are instructed.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::RECENT;
use crate::error::Result;
use crate::loops::{invalid, round_half_up};
use crate::range::{self, AMOUNT, POSITIVE};

/// What bounds the balancing period from below.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodOptions {
    /// Interactions may take this part of the time; more than 0.
    pub interaction_share: f64,
    /// Seconds for which the operating system lets a process run while others wait. The paper's machines had 0.1 s;
    /// today it is a few milliseconds.
    pub quantum: f64,
    /// The fewest quanta of a period, so that taking turns averages out; the paper finds 5 to 10.
    pub quantum_scale: f64,
}

impl Default for PeriodOptions {
    fn default() -> Self {
        PeriodOptions { interaction_share: 0.05, quantum: 0.1, quantum_scale: 10.0 }
    }
}

impl PeriodOptions {
    /// Checks that every number can be used.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) naming the first that cannot.
    pub fn validate(&self) -> Result<()> {
        let PeriodOptions { interaction_share, quantum, quantum_scale } = *self;
        if !range::is_positive(interaction_share) {
            return invalid(format!("interaction_share must be {POSITIVE}, but is {interaction_share}"));
        }
        for (name, value) in [("quantum", quantum), ("quantum_scale", quantum_scale)] {
            if !range::is_amount(value) {
                return invalid(format!("{name} must be {AMOUNT}, but is {value}"));
            }
        }
        Ok(())
    }
}

/// The three lower limits of the balancing period, in seconds (section 5.2 of the paper).
///
/// ```
/// use armature_planner::loops::{PeriodLimits, PeriodOptions, phases_between};
///
/// // An interaction takes 20 ms; movements take 1.2 s, and there is one in eight periods.
/// let limits = PeriodLimits::new(0.02, 1.2, 8.0, &PeriodOptions::default());
/// let (found, expected) = ([limits.interaction, limits.movement, limits.scheduling], [0.4, 0.15, 1.0]);
/// assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-12));
/// assert_eq!(limits.target(), 1.0);
/// // With phases of 130 ms that is every eighth.
/// assert_eq!(phases_between(limits.target(), 0.13), 8);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeriodLimits {
    /// For which interactions take no more than their share.
    pub interaction: f64,
    /// Over which the costs of a movement are spread.
    pub movement: f64,
    /// In which the operating system's turns average out.
    pub scheduling: f64,
}

impl PeriodLimits {
    /// From the cost of an interaction (s), that of a movement (s; 0 before the first), and the number of periods
    /// between two movements, of which at least 1 is taken. Of the paper's two fractions no print could be had; that
    /// they are quotients follows from the text.
    pub fn new(interaction: f64, movement: f64, workscale: f64, options: &PeriodOptions) -> Self {
        PeriodLimits {
            interaction: interaction / options.interaction_share,
            movement: movement / workscale.max(1.0),
            scheduling: options.quantum * options.quantum_scale,
        }
    }

    /// The target: the largest of the three.
    pub fn target(&self) -> f64 {
        self.interaction.max(self.movement).max(self.scheduling)
    }
}

/// Phases until the next interaction (the paper's `nexthook`): as many of `phase` seconds as make up the target, at
/// least 1 and at most as many as a 64-bit number can tell. The rounding, to the nearest, is a reconstruction.
pub fn phases_between(target: f64, phase: f64) -> u64 {
    if phase > 0.0 { round_half_up(target / phase).max(1) } else { 1 }
}

/// Keeps the target period up to date with what movements cost and how often there are any.
///
/// ```
/// use armature_planner::loops::{PeriodChooser, PeriodOptions};
///
/// let mut period = PeriodChooser::new(PeriodOptions::default())?;
/// assert_eq!(period.update(5.0, 0.005), 1.0);
/// // A movement that took 3 s may not be followed by another at once …
/// period.moved(8.0, 3.0);
/// assert_eq!(period.update(8.0, 0.005), 3.0);
/// // … but when there was none for a while, its costs are spread over that time.
/// assert_eq!(period.update(20.0, 0.005), 1.0);
/// # Ok::<(), armature_planner::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeriodChooser {
    options: PeriodOptions,
    /// The last movements: when each was done, and what it took.
    movements: VecDeque<(f64, f64)>,
    target: f64,
}

impl PeriodChooser {
    /// Without any movement yet.
    ///
    /// # Errors
    /// As [`PeriodOptions::validate`].
    pub fn new(options: PeriodOptions) -> Result<Self> {
        options.validate()?;
        let target = PeriodLimits::new(0.0, 0.0, 1.0, &options).target();
        Ok(PeriodChooser { options, movements: VecDeque::with_capacity(RECENT + 1), target })
    }

    /// The present target period in seconds.
    pub fn target(&self) -> f64 {
        self.target
    }

    /// The scheduler's quantum (s) from the next update on.
    pub(in crate::loops) fn set_quantum(&mut self, seconds: f64) {
        self.options.quantum = seconds;
    }

    /// In how many seconds the operating system's turns average out ([`PeriodLimits::scheduling`]).
    pub(in crate::loops) fn scheduling(&self) -> f64 {
        PeriodLimits::new(0.0, 0.0, 1.0, &self.options).scheduling
    }

    /// A movement of `seconds` was done at `now`. What is negative, above 1e60 or no number is ignored.
    pub fn moved(&mut self, now: f64, seconds: f64) {
        if range::amount(now.abs()).is_none() || range::amount(seconds).is_none() {
            return;
        }
        if self.movements.len() == RECENT {
            self.movements.pop_front();
        }
        self.movements.push_back((now, seconds));
    }

    /// The target period from `now` on, where an interaction costs `interaction` seconds.
    pub fn update(&mut self, now: f64, interaction: f64) -> f64 {
        let count = self.movements.len().max(1) as f64;
        let movement = self.movements.iter().map(|(_, seconds)| seconds).sum::<f64>() / count;
        let workscale = if self.target > 0.0 { self.mean_gap(now) / self.target } else { 1.0 };
        self.target = PeriodLimits::new(interaction, movement, workscale, &self.options).target();
        self.target
    }

    /// Mean time between recent movements (s). The time since the last counts where it makes the mean longer:
    /// otherwise a single movement would lengthen the period for ever. That is a reconstruction.
    fn mean_gap(&self, now: f64) -> f64 {
        let (Some(&(first, _)), Some(&(last, _))) = (self.movements.front(), self.movements.back()) else {
            return 0.0;
        };
        let closed = self.movements.len() - 1;
        let between = if closed == 0 { 0.0 } else { (last - first) / closed as f64 };
        between.max((now - first) / self.movements.len() as f64)
    }
}

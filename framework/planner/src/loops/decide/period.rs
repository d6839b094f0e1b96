//! Balancing period: the time between two reports of a loop's ranks to the balancer.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::RECENT;
use crate::error::Result;
use crate::loops::{invalid, round_half_up};
use crate::range::{self, AMOUNT, POSITIVE};

/// Options for the lower limits of the balancing period, the time between two reports of a loop's ranks to the balancer.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PeriodOptions {
    /// Maximum fraction of the run time that reports to the balancer may take; more than 0.
    pub interaction_share: f64,
    /// Time quantum of the operating system: seconds for which a process runs while others wait. The machines in the paper of Siegell and Steenkiste
    /// had 0.1 s; today it is a few milliseconds.
    pub quantum: f64,
    /// Minimum number of time quanta in a balancing period, so that the turns of processes average out; the paper of Siegell and Steenkiste
    /// recommends 5 to 10.
    pub quantum_scale: f64,
}

impl Default for PeriodOptions {
    fn default() -> Self {
        PeriodOptions { interaction_share: 0.05, quantum: 0.1, quantum_scale: 10.0 }
    }
}

impl PeriodOptions {
    /// Checks that every option is valid.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) with the first invalid number.
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

/// The three lower limits of the balancing period, in seconds (section 5.2 of the paper of Siegell and Steenkiste).
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
    /// Shortest period with which reports to the balancer take no more than the permitted fraction of the run time.
    pub interaction: f64,
    /// Shortest period that is at least as long as the time that movements of units (loop iterations) between ranks take in it on average.
    pub movement: f64,
    /// Shortest period in which the turns of processes on a core average out.
    pub scheduling: f64,
}

impl PeriodLimits {
    /// Computes the limits from the cost of the reports for one decision (`interaction`, s), the cost of a movement of units (s; 0 before the first
    /// movement), and the number of periods between two movements, which counts as at least 1. The available copy of the paper of Siegell and
    /// Steenkiste lacks the formulas of the first two limits; its text implies that they are quotients.
    pub fn new(interaction: f64, movement: f64, workscale: f64, options: &PeriodOptions) -> Self {
        PeriodLimits {
            interaction: interaction / options.interaction_share,
            movement: movement / workscale.max(1.0),
            scheduling: options.quantum * options.quantum_scale,
        }
    }

    /// Returns the balancing period to use: the largest of the three limits.
    pub fn target(&self) -> f64 {
        self.interaction.max(self.movement).max(self.scheduling)
    }
}

/// Returns the number of phases (times between two hooks, at which ranks can report) until the next reports, `nexthook` in the paper of Siegell and
/// Steenkiste: the number of phases of `phase` seconds in the `target` period, at least 1 and limited to 64 bits. Rounding to the nearest number is a
/// guess, as the available copy of the paper gives no rule for it.
pub fn phases_between(target: f64, phase: f64) -> u64 {
    if phase > 0.0 { round_half_up(target / phase).max(1) } else { 1 }
}

/// Computes the balancing period (time between reports of a rank) from the cost of reports, and from cost and frequency of movements of units (loop
/// iterations).
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
    /// Last movements of units (loop iterations): time of completion, and duration in seconds.
    movements: VecDeque<(f64, f64)>,
    target: f64,
}

impl PeriodChooser {
    /// Creates a chooser of the balancing period, before any movement.
    ///
    /// # Errors
    /// See [`PeriodOptions::validate`].
    pub fn new(options: PeriodOptions) -> Result<Self> {
        options.validate()?;
        let target = PeriodLimits::new(0.0, 0.0, 1.0, &options).target();
        Ok(PeriodChooser { options, movements: VecDeque::with_capacity(RECENT + 1), target })
    }

    /// Returns the current balancing period in seconds.
    pub fn target(&self) -> f64 {
        self.target
    }

    pub(in crate::loops) fn set_quantum(&mut self, seconds: f64) {
        self.options.quantum = seconds;
    }

    pub(in crate::loops) fn scheduling(&self) -> f64 {
        PeriodLimits::new(0.0, 0.0, 1.0, &self.options).scheduling
    }

    /// Records a movement of units (loop iterations) between ranks that took `seconds` and was complete at time `now` (s). Numbers that are negative,
    /// above 1e60 or NaN are ignored.
    pub fn moved(&mut self, now: f64, seconds: f64) {
        if range::amount(now.abs()).is_none() || range::amount(seconds).is_none() {
            return;
        }
        if self.movements.len() == RECENT {
            self.movements.pop_front();
        }
        self.movements.push_back((now, seconds));
    }

    /// Computes and returns the balancing period from time `now` on, if the reports for one decision cost `interaction` seconds.
    pub fn update(&mut self, now: f64, interaction: f64) -> f64 {
        let count = self.movements.len().max(1) as f64;
        let movement = self.movements.iter().map(|(_, seconds)| seconds).sum::<f64>() / count;
        let workscale = if self.target > 0.0 { self.mean_gap(now) / self.target } else { 1.0 };
        self.target = PeriodLimits::new(interaction, movement, workscale, &self.options).target();
        self.target
    }

    /// Returns the mean time between recent movements of units (loop iterations), in seconds. The time since the last movement counts if it makes the
    /// mean longer; otherwise a single movement would lengthen the period for ever. This rule is a guess, as the available copy of the paper of
    /// Siegell and Steenkiste gives none.
    fn mean_gap(&self, now: f64) -> f64 {
        let (Some(&(first, _)), Some(&(last, _))) = (self.movements.front(), self.movements.back()) else {
            return 0.0;
        };
        let closed = self.movements.len() - 1;
        let between = if closed == 0 { 0.0 } else { (last - first) / closed as f64 };
        between.max((now - first) / self.movements.len() as f64)
    }
}

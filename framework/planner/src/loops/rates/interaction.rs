//! What a balancer is told.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::loops::invalid;
use crate::range;

/// Seconds of computing below which no clock tells a rate.
pub(in crate::loops) const SHORTEST: f64 = 1e-9;

/// What a rank did since the interaction before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Units done; parts of units count as such.
    pub units: f64,
    /// Seconds in which it computed them; waiting for others does not count, waiting for the processor does.
    pub seconds: f64,
    /// Units that it has now.
    pub held: u64,
}

impl Report {
    /// Units a second; `None` if that cannot be told. A rank without units says nothing of its speed.
    pub(in crate::loops) fn rate(&self) -> Option<f64> {
        let is_told = self.seconds >= SHORTEST && (self.units > 0.0 || self.held > 0);
        is_told.then(|| self.units / self.seconds)
    }
}

/// All that a balancer is told at an interaction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interaction<'a> {
    /// Seconds on any clock that does not go back.
    pub now: f64,
    /// A report of each rank, in order.
    pub reports: &'a [Report],
    /// Mean time of a phase since the interaction before (s), from hook to hook.
    pub phase: f64,
    /// Seconds that an interaction costs.
    pub cost: f64,
    /// What is still to be done; moves have to pay until then.
    pub ahead: Ahead,
}

/// What is still to be done of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Ahead {
    /// Nobody knows.
    #[default]
    Unknown,
    /// All units, this number of times more.
    Passes(f64),
    /// What the ranks have now is what they have not done in a pass that is running. At the beginning of the next one units are
    /// shared out anew, so that a gain lasts until the end of this one, and does so as surely as rates are known.
    RestOfPass,
}

impl Interaction<'_> {
    /// Checks what all `ranks` ranks have told, the last time at `last`.
    ///
    /// # Errors
    /// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if there is not one report of each rank, a number is negative or not
    /// finite, or time went back.
    pub(in crate::loops) fn check(&self, ranks: usize, last: Option<f64>) -> Result<()> {
        let &Interaction { now, reports, phase, cost, ahead } = self;
        if reports.len() != ranks {
            let came = reports.len();
            return invalid(format!("{came} reports came from {ranks} ranks: there must be one of each"));
        }
        let last = last.unwrap_or(f64::NEG_INFINITY);
        let usable = |value: f64| range::amount(value).is_some();
        if !(usable(now.abs()) && now >= last) {
            return invalid(format!("time cannot go from {last} s to {now} s"));
        }
        for (rank, report) in reports.iter().enumerate() {
            if !(usable(report.units) && usable(report.seconds)) {
                return invalid(format!(
                    "rank {rank} reports {} units in {} s: both must be numbers from 0 to 1e60",
                    report.units, report.seconds
                ));
            }
        }
        let total = reports.iter().try_fold(0_u64, |sum, report| sum.checked_add(report.held));
        if total.is_none() {
            return invalid("the ranks report more units than a 64-bit number can tell".into());
        }
        let others = [
            ("phase", phase),
            ("cost", cost),
            ("passes ahead", if let Ahead::Passes(passes) = ahead { passes } else { 0.0 }),
        ];
        for (name, value) in others {
            if !usable(value) {
                return invalid(format!("{name} must be a number from 0 to 1e60, but is {value}"));
            }
        }
        Ok(())
    }
}

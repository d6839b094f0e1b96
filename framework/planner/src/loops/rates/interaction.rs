//! Input of a loop balancer for one decision: a report of each rank.

use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::loops::invalid;
use crate::range;

/// Minimum computing time in seconds from which a rate is computed; shorter times are below the resolution of clocks.
pub(in crate::loops) const SHORTEST: f64 = 1e-9;

/// Report of a rank to the balancer about its work since its previous report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Number of units (loop iterations) that the rank has done; fractions of units count.
    pub units: f64,
    /// Seconds that the rank took to compute these units (loop iterations). Waiting for other ranks does not count, waiting for the processor does.
    pub seconds: f64,
    /// Number of units (loop iterations) that the rank has now.
    pub held: u64,
}

impl Report {
    /// Returns the units (loop iterations) per second of the report; `None` if its time is too short to determine a rate, or if the rank neither did
    /// nor has any units.
    pub(in crate::loops) fn rate(&self) -> Option<f64> {
        let has_reported = self.seconds >= SHORTEST && (self.units > 0.0 || self.held > 0);
        has_reported.then(|| self.units / self.seconds)
    }
}

/// Input of a loop balancer for one decision, when all ranks have reported to it (an interaction).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interaction<'a> {
    /// Time of the reports in seconds, on any monotonic clock.
    pub now: f64,
    /// One report of each rank, in the order of the ranks.
    pub reports: &'a [Report],
    /// Mean time between two hooks (points at which ranks can report) since the previous reports, in seconds.
    pub phase: f64,
    /// Mean seconds that a rank loses by its report to the balancer.
    pub cost: f64,
    /// Remaining work of the loop, during which moves must save more than they cost.
    pub ahead: Ahead,
}

/// Remaining work of a parallel loop.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Ahead {
    /// The remaining work is unknown.
    #[default]
    Unknown,
    /// The given number of passes over all units remains.
    Passes(f64),
    /// The rest of the current pass over all units: the reported units of a rank are those that it has not yet done in this pass. At the beginning of
    /// the next pass units are redistributed, so a gain lasts only until the end of this pass, and is as certain as the measured rates.
    RestOfPass,
}

impl Interaction<'_> {
    pub(in crate::loops) fn check(&self, ranks: usize, last: Option<f64>) -> Result<()> {
        let &Interaction { now, reports, phase, cost, ahead } = self;
        if reports.len() != ranks {
            let received = reports.len();
            return invalid(format!("{received} reports came from {ranks} ranks: there must be one of each"));
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
            return invalid("the ranks report more units than a 64-bit number can count".into());
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

//! Accumulation of short reports of a rank to the loop balancer, until together they determine the rank's rate.

use super::interaction::Report;
use crate::range;

/// Minimum computing time of a rank before its rate is reported, as a fraction of the time in which the turns of processes on a shared core average
/// out.
const ENOUGH: f64 = 0.5;
/// Elapsed time after which a rate is reported in any case, as a multiple of the time in which the turns of processes on a shared core average out.
const PATIENCE: f64 = 10.0;

/// Minimum remaining time of a pass (all units of the loop once), in seconds. When one rank has no units left, the balancer asks for reports only if
/// another rank still needs more than this time.
pub const SOON: f64 = 2e-3;
/// Minimum seconds between two reports of a rank to the balancer. On a simulated host a report may cost nothing, so that no other limit applies.
pub const LEAST_PERIOD: f64 = 5e-3;

/// Returns true if a report of a rank to the balancer covers enough time to determine the rate of a rank, although processes take turns on its core:
/// `seconds` seconds of computing within `span` seconds since the previous report. `shortest` is [the time in which the turns average
/// out](crate::loops::LoopBalancer::shortest_period); half of it is enough computing, because balancing periods consist of whole passes or blocks of
/// units (loop iterations). A rank that mostly waits may never compute for that long, so a `span` of ten times `shortest` is enough too.
pub fn has_averaged_out(seconds: f64, span: f64, shortest: f64) -> bool {
    seconds >= ENOUGH * shortest || span >= PATIENCE * shortest
}

/// Work of a rank since its rate was last reported to the balancer. Reports in quick succession, as at the end of a pass over all units, are
/// accumulated until they [determine a rate](has_averaged_out); the previous rate remains valid in the meantime. The first report is not delayed.
///
/// ```
/// use armature_planner::loops::{Report, RateAccumulator};
///
/// let mut accumulator = RateAccumulator::default();
/// accumulator.add(10.0, 0.1, 0.1);
/// assert_eq!(accumulator.report(50, 1.0), Report { units: 10.0, seconds: 0.1, held: 50 });
/// accumulator.add(30.0, 0.3, 0.3);
/// assert_eq!(accumulator.report(50, 1.0), Report { held: 50, ..Report::default() }, "less than half a second");
/// accumulator.add(20.0, 0.2, 0.4);
/// assert_eq!(accumulator.report(50, 1.0), Report { units: 50.0, seconds: 0.5, held: 50 });
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RateAccumulator {
    units: f64,
    seconds: f64,
    span: f64,
    has_reported: bool,
}

impl RateAccumulator {
    /// Adds `units` units (loop iterations) done in `seconds` seconds of computing, within `span` seconds since the previous report of the rank. A
    /// report with a number that is negative, above 1e60 or NaN is ignored.
    pub fn add(&mut self, units: f64, seconds: f64, span: f64) {
        if [units, seconds, span].iter().any(|value| range::amount(*value).is_none()) {
            return;
        }
        self.units += units;
        self.seconds += seconds;
        self.span += span;
    }

    /// Returns the report for the balancer about a rank that has `held` units (loop iterations). `shortest` is the time in seconds in which the turns
    /// of processes on a core average out.
    pub fn report(&mut self, held: u64, shortest: f64) -> Report {
        let RateAccumulator { units, seconds, span, has_reported } = *self;
        if has_reported && !has_averaged_out(seconds, span, shortest) {
            return Report { held, ..Report::default() };
        }
        *self = RateAccumulator { has_reported: has_reported || seconds > 0.0, ..RateAccumulator::default() };
        Report { units, seconds, held }
    }
}

//! What a rank did, put together until it tells a rate.

use super::interaction::Report;
use crate::range;

/// The part of the shortest period for which a rank must have worked before its rate is told …
const ENOUGH: f64 = 0.5;
/// … and this number of them must have passed at the most.
const PATIENCE: f64 = 10.0;

/// Ranks are not asked to report in the middle of a pass, for the sake of one that has run out of units, if all will be done
/// within these seconds.
pub const SOON: f64 = 2e-3;
/// The fewest seconds between two reports where nothing else bounds that: on a simulated host interactions may cost
/// nothing.
pub const LEAST_PERIOD: f64 = 5e-3;

/// Whether the operating system's turns have evened out in a report of `seconds` seconds of computing, `span` seconds
/// after the report before. `shortest` is [the time that they need](crate::loops::LoopBalancer::shortest_period), of which part
/// may be missing: periods are made up of whole passes or blocks. A rank that mostly waits may never work as long.
pub fn tells_rate(seconds: f64, span: f64, shortest: f64) -> bool {
    seconds >= ENOUGH * shortest || span >= PATIENCE * shortest
}

/// What a rank did since its rate was last told. Reports that come soon one after the other, as at the end of a pass, are put
/// together until they [tell a rate](tells_rate); the last one holds meanwhile. A first report is told as it is.
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
    is_told: bool,
}

impl RateAccumulator {
    /// The rank has done `units` units in `seconds` seconds of computing, within `span` seconds since it last reported. What is
    /// negative, above 1e60 or no number is ignored.
    pub fn add(&mut self, units: f64, seconds: f64, span: f64) {
        if [units, seconds, span].iter().any(|value| range::amount(*value).is_none()) {
            return;
        }
        self.units += units;
        self.seconds += seconds;
        self.span += span;
    }

    /// What a balancer is told of the rank, which has `held` units.
    pub fn report(&mut self, held: u64, shortest: f64) -> Report {
        let RateAccumulator { units, seconds, span, is_told } = *self;
        if is_told && !tells_rate(seconds, span, shortest) {
            return Report { held, ..Report::default() };
        }
        *self = RateAccumulator { is_told: is_told || seconds > 0.0, ..RateAccumulator::default() };
        Report { units, seconds, held }
    }
}

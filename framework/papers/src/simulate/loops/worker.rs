//! Simulated rank of a parallel loop, which receives and sends rows or indices of the loop while it computes.

use armature_planner::loops::{RateAccumulator, Report};

use super::processor::Processor;

/// Rounding error of an amount of work, as a fraction of the work of one row or index of the loop.
const ROUNDING: f64 = 1e-9;

/// Simulated rank with its work in the current pass. The rank computes in *stretches* without a pause; until a
/// stretch ends, work may be added to it or removed from it.
pub(super) struct SimulatedWorker {
    /// Processor of the rank, in its state at the beginning of the current stretch (computing without a pause).
    processor: Processor,
    held: u64,
    unit: f64,
    /// Time at which the current stretch (computing without a pause) begins, or the earliest time at which the next
    /// one may begin.
    start: f64,
    /// Processor seconds of work in the current stretch (computing without a pause). The field `followed` is the part
    /// of this work that has been simulated.
    work: f64,
    followed: f64,
    /// Time up to which the rank's computing has been simulated.
    until: f64,
    /// Number of rows or indices of the loop that the rank computed since its last report. The field `seconds` is the computing
    /// time since then, and `reported` the time of that report.
    units: f64,
    seconds: f64,
    reported: f64,
    tally: RateAccumulator,
}

impl SimulatedWorker {
    pub(super) fn new(processor: Processor, held: u64) -> Self {
        SimulatedWorker {
            processor,
            held,
            unit: 0.0,
            start: 0.0,
            work: 0.0,
            followed: 0.0,
            until: 0.0,
            units: 0.0,
            seconds: 0.0,
            reported: 0.0,
            tally: RateAccumulator::default(),
        }
    }

    /// Begins a pass in which one row or index of the loop takes `unit` processor seconds.
    pub(super) fn begin(&mut self, now: f64, unit: f64) {
        self.unit = unit;
        self.compute(now, self.held);
    }

    pub(super) fn take(&mut self, now: f64, units: u64) {
        self.held += units;
        self.compute(now, units);
    }

    /// Removes rows or indices of the loop that the rank has not begun.
    pub(super) fn assign(&mut self, units: u64) {
        self.held -= units;
        self.work = (self.work - units as f64 * self.unit).max(self.followed);
    }

    fn compute(&mut self, now: f64, units: u64) {
        if !self.is_busy() {
            (self.start, self.followed) = (self.start.max(now), 0.0);
        }
        self.work += units as f64 * self.unit;
    }

    fn is_busy(&self) -> bool {
        self.work > 0.0
    }

    /// Returns the time at which the rank will have computed its rows or indices of the loop; `None` if it has none
    /// left.
    pub(super) fn done_at(&self) -> Option<f64> {
        self.is_busy().then(|| self.processor.clone().compute(self.start, self.work))
    }

    pub(super) fn left(&self, now: f64) -> f64 {
        self.done_at().map_or(0.0, |end| end - now)
    }

    /// Simulates the rank until time `now`. Returns true if it has just finished its work.
    pub(super) fn follow(&mut self, now: f64) -> bool {
        let from = self.until.max(self.start);
        self.until = now;
        let Some(end) = self.done_at() else { return false };
        let is_done = end <= now;
        let followed = if is_done { self.work } else { self.processor.done_by(self.start, now) };
        self.units += (followed - self.followed) / self.unit;
        self.seconds += (end.min(now) - from).max(0.0);
        self.followed = followed;
        if is_done {
            self.start = self.processor.compute(self.start, self.work);
            self.work = 0.0;
        }
        is_done
    }

    /// Adds processor seconds that the rank spends on communication instead of on its rows or indices.
    pub(super) fn pause(&mut self, now: f64, seconds: f64) {
        if seconds > 0.0 {
            self.processor.compute(self.start, self.followed.min(self.work));
            self.work = (self.work - self.followed).max(0.0);
            (self.start, self.followed) = (self.processor.compute(self.start.max(now), seconds), 0.0);
        }
    }

    /// Returns the rank's report to the balancer at time `now`, with the number of rows or indices that the rank has
    /// not begun.
    pub(super) fn report(&mut self, now: f64, shortest: f64) -> Report {
        self.tally.add(self.units, self.seconds, now - self.reported);
        (self.units, self.seconds, self.reported) = (0.0, 0.0, now);
        let left = (self.work - self.followed).max(0.0) / self.unit;
        // Numbers of rows or indices above 2^53 are rounded, possibly to more than the rank holds.
        let undone = if self.is_busy() { ((left + ROUNDING).floor() as u64).min(self.held) } else { 0 };
        self.tally.report(undone, shortest)
    }

    pub(super) fn end(self) -> (Processor, u64) {
        (self.processor, self.held)
    }
}

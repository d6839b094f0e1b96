//! A rank that gets and gives units while it computes.

use super::processor::Processor;
use crate::loops::{RateAccumulator, Report};

/// Part of a unit that is rounding.
const ROUNDING: f64 = 1e-9;

/// A rank and what it has to do in the present pass. It computes in *stretches*, without a pause: as long as one lasts, what
/// is to be done in it may still change.
pub(super) struct Worker {
    /// As it was at the beginning of the stretch.
    processor: Processor,
    held: u64,
    /// Seconds of the processor's time that a unit takes.
    unit: f64,
    /// When the stretch began, or when it may begin.
    start: f64,
    /// Seconds of the processor's time that are to be done in it, and those that were followed.
    work: f64,
    followed: f64,
    /// Until when it was followed.
    until: f64,
    /// What it did since it last reported, and when that was.
    units: f64,
    seconds: f64,
    reported: f64,
    tally: RateAccumulator,
}

impl Worker {
    /// With `held` units, before the first pass.
    pub(super) fn new(processor: Processor, held: u64) -> Self {
        Worker {
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

    /// A pass begins, in which a unit takes so long.
    pub(super) fn begin(&mut self, now: f64, unit: f64) {
        self.unit = unit;
        self.compute(now, self.held);
    }

    /// Units come that are to be done.
    pub(super) fn take(&mut self, now: f64, units: u64) {
        self.held += units;
        self.compute(now, units);
    }

    /// Units leave that it has not begun.
    pub(super) fn give(&mut self, units: u64) {
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

    /// When it will have done what it has; `None` if it has nothing to do.
    pub(super) fn done_at(&self) -> Option<f64> {
        self.is_busy().then(|| self.processor.clone().compute(self.start, self.work))
    }

    /// Seconds that it still has to compute.
    pub(super) fn left(&self, now: f64) -> f64 {
        self.done_at().map_or(0.0, |end| end - now)
    }

    /// Computes until `now`. Returns whether it has just done all that it had.
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

    /// Does nothing of the loop for `seconds` seconds of the processor's time.
    pub(super) fn pause(&mut self, now: f64, seconds: f64) {
        if seconds > 0.0 {
            self.processor.compute(self.start, self.followed.min(self.work));
            self.work = (self.work - self.followed).max(0.0);
            (self.start, self.followed) = (self.processor.compute(self.start.max(now), seconds), 0.0);
        }
    }

    /// What a balancer is told now; units that it has not begun count as those that it has.
    pub(super) fn report(&mut self, now: f64, shortest: f64) -> Report {
        self.tally.add(self.units, self.seconds, now - self.reported);
        (self.units, self.seconds, self.reported) = (0.0, 0.0, now);
        let left = (self.work - self.followed).max(0.0) / self.unit;
        let undone = if self.is_busy() { (left + ROUNDING).floor() as u64 } else { 0 };
        self.tally.report(undone, shortest)
    }

    /// The processor, and how many units it has.
    pub(super) fn end(self) -> (Processor, u64) {
        (self.processor, self.held)
    }
}

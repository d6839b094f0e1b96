//! Cost of a change of a pipeline's mapping, in seconds that the stream lost, computed from the times at which items reached the sink.
//!
//! A change of the mapping disturbs the stream from the moment when it is ordered until the last batch drawn before it has reached the sink. The time
//! that the items arriving meanwhile would have taken undisturbed is no loss. Until the change takes effect, this time follows from the pace before
//! the change (seconds per item); from then on, from the better of the paces before and after. (With the pace before alone, the disturbance would not
//! show whenever the change makes the stream faster.) The cost of a change is therefore
//!
//! > (T1 − n1 · before) + (T2 − n2 · min(before, after)),
//!
//! where n1 items arrive in the T1 seconds of preparation and n2 items in the T2 seconds that follow. Both paces are measured, so the cost is known
//! only some time after the change, and may be slightly negative if there was none. It is not clamped to zero, because the mean over many changes
//! would then be too large.

use std::time::Duration;

use super::progress::Progress;

/// Length of a measurement of the pace (seconds per item at the sink), as a multiple of the number of items in flight.
const WINDOWS: u64 = 4;
/// Minimum length, in items, of a measurement of the pace (seconds per item at the sink). With fewer items, the arrivals of single batches would
/// distort the pace.
const LEAST_ITEMS: u64 = 32;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    /// Cost in units of the time that the items in flight at the change take, at the better of the paces (seconds per item) before and after; `None`
    /// if no items were in flight.
    pub(crate) windows: Option<f64>,
}

/// Result of measuring the seconds that the stream lost by the last change of the mapping.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CostUpdate {
    /// The last batch drawn from the source before the change of mapping has reached the sink. Compared with the pace before the change, the stream
    /// has lost `loss` seconds; the loss is negative if the stream is faster already.
    Drained { loss: f64 },
    /// The seconds per item after the change of the mapping have been measured, so the cost of the change is known.
    Settled(Cost),
}

/// Point in time with the number of items that had reached the sink by then.
#[derive(Clone, Copy, Debug)]
struct Point {
    at: Duration,
    items: u64,
}

impl Point {
    fn of(s: Progress) -> Self {
        Point { at: s.now, items: s.items }
    }

    fn items_to(self, later: Point) -> u64 {
        later.items.saturating_sub(self.items)
    }

    fn seconds_to(self, later: Point) -> f64 {
        later.at.saturating_sub(self.at).as_secs_f64()
    }

    /// Returns the seconds that a stream has lost from this point in time until `later`, compared with a stream in which an item takes `pace`
    /// seconds.
    fn loss_to(self, later: Point, pace: f64) -> f64 {
        self.seconds_to(later) - self.items_to(later) as f64 * pace
    }

    /// Returns the seconds per item from this point in time until `later`, if at least `least` items have reached the sink in between.
    fn pace_to(self, later: Point, least: u64) -> Option<f64> {
        let items = self.items_to(later);
        (items >= least.max(1)).then(|| self.seconds_to(later) / items as f64)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// No change of mapping is in progress.
    Unchanged,
    /// Rank 0 has ordered a change of the mapping, which has not taken effect.
    Preparing { ordered: Point, before: Option<f64> },
    /// The change of the mapping has taken effect, but batches that were drawn from the source before it are in flight.
    Draining { ordered: Point, activated: Point, before: Option<f64>, first_batch: u64, window: u64 },
    /// All batches drawn from the source before the change of mapping have reached the sink, and the pace (seconds per item) after the change is
    /// being measured.
    Measuring { drained: Point, account: Option<Account>, window: u64 },
}

/// Measurements from which the cost of a change of the mapping follows, if the pace (seconds per item) before the change is known.
#[derive(Clone, Copy, Debug)]
struct Account {
    before: f64,
    preparing: f64,
    /// Seconds and number of items between the switch to the new mapping and the arrival at the sink of the last batch drawn before it.
    draining: (f64, f64),
}

impl Account {
    fn settle(self, after: f64, window: u64) -> Cost {
        let better = self.before.min(after);
        let (took, items) = self.draining;
        let seconds = self.preparing + took - items * better;
        let window = window as f64 * better;
        Cost { seconds, windows: (window > 0.0).then(|| seconds / window) }
    }
}

/// Meter of the cost of changes of the mapping; see the module documentation.
#[derive(Debug)]
pub(crate) struct RemapCostMeter {
    phase: Phase,
    /// Two points of the stream under the current mapping, from which its pace (seconds per item) is measured. If a measurement covers n items, the
    /// newer point is at most about n items old, and the older point at most 2n.
    points: Option<(Point, Point)>,
}

impl RemapCostMeter {
    pub(crate) fn new() -> Self {
        RemapCostMeter { phase: Phase::Unchanged, points: None }
    }

    /// Returns the number of items that must have reached the sink before the next call of [`see`](RemapCostMeter::see) is useful.
    pub(crate) fn next(&self, in_flight: u64) -> u64 {
        match (self.phase, self.points) {
            (Phase::Preparing { .. }, _) => u64::MAX,
            (Phase::Draining { .. }, _) => 0,
            (Phase::Measuring { drained, window, .. }, _) => drained.items + span(window),
            (Phase::Unchanged, Some((_, newer))) => newer.items + span(in_flight),
            (Phase::Unchanged, None) => 1,
        }
    }

    /// Updates the meter with the progress of the stream. Returns the loss or cost of the last change of the mapping, if it has just become known.
    pub(crate) fn see(&mut self, s: Progress) -> Option<CostUpdate> {
        let now = Point::of(s);
        match self.phase {
            Phase::Preparing { .. } => None,
            Phase::Unchanged => {
                let (_, newer) = *self.points.get_or_insert((now, now));
                if newer.items_to(now) >= span(s.in_flight()) {
                    self.points = Some((newer, now));
                }
                None
            }
            Phase::Draining { ordered, activated, before, first_batch, window } => {
                if s.batches.0 < first_batch {
                    return None;
                }
                let account = before.map(|before| Account {
                    before,
                    preparing: ordered.loss_to(activated, before),
                    draining: (activated.seconds_to(now), activated.items_to(now) as f64),
                });
                self.phase = Phase::Measuring { drained: now, account, window };
                self.points = Some((now, now));
                Some(CostUpdate::Drained { loss: before.map_or(0.0, |before| ordered.loss_to(now, before)) })
            }
            Phase::Measuring { window, .. } => self.settle(now, span(window)),
        }
    }

    /// Records that rank 0 has ordered another mapping. The pace after the previous change of the mapping is computed from the items that have
    /// arrived by now, or stays unknown.
    pub(crate) fn ordered(&mut self, s: Progress) -> Option<CostUpdate> {
        let now = Point::of(s);
        let update = self.end(s);
        // While batches drawn before the previous change of the mapping are in flight, the pace belongs to no single mapping, so the pace before this
        // change stays unknown.
        let points = self.points.take_if(|_| !matches!(self.phase, Phase::Draining { .. }));
        let before = points.and_then(|(older, _)| older.pace_to(now, s.in_flight()));
        self.phase = Phase::Preparing { ordered: now, before };
        update
    }

    pub(crate) fn activated(&mut self, s: Progress) {
        self.points = None;
        self.phase = match self.phase {
            Phase::Preparing { ordered, before } => Phase::Draining {
                ordered,
                activated: Point::of(s),
                before,
                first_batch: s.batches.1,
                window: s.in_flight(),
            },
            other => other,
        };
    }

    /// Computes the cost of the last change of the mapping at the end of the stream, even if fewer items than usual have arrived since. The pace
    /// (seconds per item) after the change is then measured over at least as many items as were in flight.
    pub(crate) fn end(&mut self, s: Progress) -> Option<CostUpdate> {
        match self.phase {
            Phase::Measuring { window, .. } => self.settle(Point::of(s), window),
            _ => None,
        }
    }

    /// Computes the cost of the last change of the mapping, if at least `least` items have reached the sink since the last batch of the old mapping
    /// reached it.
    fn settle(&mut self, now: Point, least: u64) -> Option<CostUpdate> {
        let Phase::Measuring { drained, account, window } = self.phase else { return None };
        let after = drained.pace_to(now, least)?;
        self.phase = Phase::Unchanged;
        account.map(|account| CostUpdate::Settled(account.settle(after, window)))
    }
}

/// Returns the number of items over which a pace (seconds per item) is measured if `in_flight` items are in flight.
fn span(in_flight: u64) -> u64 {
    (WINDOWS * in_flight).max(LEAST_ITEMS)
}

#[cfg(test)]
#[path = "remap_cost_tests.rs"]
mod tests;

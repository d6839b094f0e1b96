//! What a change of mapping costs the stream: what has arrived by when in, seconds out.
//!
//! A change disturbs the stream from the moment at which it is ordered until the last batch drawn before it has reached
//! the sink. Of that time, what the items that arrived in it would have taken undisturbed is no loss: until the change
//! is in force at the pace before it, and from then on at the better of the paces before and after. (The pace before
//! alone would hide the whole disturbance wherever the change speeds the stream up.) So the cost of a change is
//!
//! > (T1 − n1 · before) + (T2 − n2 · min(before, after)),
//!
//! where n1 items arrive in the T1 seconds of preparation and n2 in the T2 seconds that follow. Both paces are
//! measured, so the cost is known only some time after the change, and may be slightly negative where there was none.
//! It is not cut off at zero: the mean over many changes would be too large then.

use std::time::Duration;

use super::progress::Progress;

/// A pace is measured over this many windows of items,
const WINDOWS: u64 = 4;
/// and over at least this many items: over fewer, single batches would show.
const LEAST_ITEMS: u64 = 32;

/// What a change has cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Cost {
    pub(crate) seconds: f64,
    /// The same as a multiple of the time that the items in flight at the change take at the better pace; none if
    /// there were none.
    pub(crate) windows: Option<f64>,
}

/// Something that has become known of the last change.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum CostUpdate {
    /// The last batch drawn before it has arrived. Against going on as before the stream has lost `loss` seconds;
    /// less than nothing if it goes faster already.
    Drained { loss: f64 },
    /// The pace after it is known, and with it what it has cost.
    Settled(Cost),
}

/// How many items had arrived by when.
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

    /// Seconds lost until `later`, if an item ought to take `pace`.
    fn loss_to(self, later: Point, pace: f64) -> f64 {
        self.seconds_to(later) - self.items_to(later) as f64 * pace
    }

    /// Seconds for an item, if there were at least `least`.
    fn pace_to(self, later: Point, least: u64) -> Option<f64> {
        let items = self.items_to(later);
        (items >= least.max(1)).then(|| self.seconds_to(later) / items as f64)
    }
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// Nothing changes.
    Steady,
    /// A change was ordered.
    Preparing { ordered: Point, before: Option<f64> },
    /// It is in force, while batches drawn before it are on their way.
    Draining { ordered: Point, in_force: Point, before: Option<f64>, first_batch: u64, window: u64 },
    /// All have arrived, and the pace is being measured.
    Measuring { drained: Point, account: Option<Account>, window: u64 },
}

/// What is known of a change that has landed, if the pace before it was known.
#[derive(Clone, Copy, Debug)]
struct Account {
    before: f64,
    preparing: f64,
    /// Seconds and items from its coming into force to its landing.
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

/// See the module's page.
#[derive(Debug)]
pub(crate) struct RemapCostMeter {
    phase: Phase,
    /// Marks of the stream on its present mapping, at most a span of items old, and at most two.
    points: Option<(Point, Point)>,
}

impl RemapCostMeter {
    pub(crate) fn new() -> Self {
        RemapCostMeter { phase: Phase::Steady, points: None }
    }

    /// Nothing needs to be [seen](RemapCostMeter::see) before this number of items has arrived.
    pub(crate) fn next(&self, in_flight: u64) -> u64 {
        match (self.phase, self.points) {
            (Phase::Preparing { .. }, _) => u64::MAX,
            (Phase::Draining { .. }, _) => 0,
            (Phase::Measuring { drained, window, .. }, _) => drained.items + span(window),
            (Phase::Steady, Some((_, newer))) => newer.items + span(in_flight),
            (Phase::Steady, None) => 1,
        }
    }

    /// The stream stands so.
    pub(crate) fn see(&mut self, s: Progress) -> Option<CostUpdate> {
        let now = Point::of(s);
        match self.phase {
            Phase::Preparing { .. } => None,
            Phase::Steady => {
                let (_, newer) = *self.points.get_or_insert((now, now));
                if newer.items_to(now) >= span(s.in_flight()) {
                    self.points = Some((newer, now));
                }
                None
            }
            Phase::Draining { ordered, in_force, before, first_batch, window } => {
                if s.batches.0 < first_batch {
                    return None;
                }
                let account = before.map(|before| Account {
                    before,
                    preparing: ordered.loss_to(in_force, before),
                    draining: (in_force.seconds_to(now), in_force.items_to(now) as f64),
                });
                self.phase = Phase::Measuring { drained: now, account, window };
                self.points = Some((now, now));
                Some(CostUpdate::Drained { loss: before.map_or(0.0, |before| ordered.loss_to(now, before)) })
            }
            Phase::Measuring { window, .. } => self.settle(now, span(window)),
        }
    }

    /// Another mapping is being prepared. The pace after the last one has to be known by now, or stays unknown.
    pub(crate) fn ordered(&mut self, s: Progress) -> Option<CostUpdate> {
        let now = Point::of(s);
        let update = self.end(s);
        // Under a change that has not landed there is no pace that belongs to one mapping.
        let points = self.points.take_if(|_| !matches!(self.phase, Phase::Draining { .. }));
        let before = points.and_then(|(older, _)| older.pace_to(now, s.in_flight()));
        self.phase = Phase::Preparing { ordered: now, before };
        update
    }

    /// The mapping that was ordered is in force.
    pub(crate) fn in_force(&mut self, s: Progress) {
        self.points = None;
        self.phase = match self.phase {
            Phase::Preparing { ordered, before } => Phase::Draining {
                ordered,
                in_force: Point::of(s),
                before,
                first_batch: s.batches.1,
                window: s.in_flight(),
            },
            other => other,
        };
    }

    /// The stream is over; a window of items after the last change is enough now.
    pub(crate) fn end(&mut self, s: Progress) -> Option<CostUpdate> {
        match self.phase {
            Phase::Measuring { window, .. } => self.settle(Point::of(s), window),
            _ => None,
        }
    }

    /// Closes the account of the last change, if there are enough items since it landed.
    fn settle(&mut self, now: Point, least: u64) -> Option<CostUpdate> {
        let Phase::Measuring { drained, account, window } = self.phase else { return None };
        let after = drained.pace_to(now, least)?;
        self.phase = Phase::Steady;
        account.map(|account| CostUpdate::Settled(account.settle(after, window)))
    }
}

/// Items over which a pace is measured where `in_flight` are in flight.
fn span(in_flight: u64) -> u64 {
    (WINDOWS * in_flight).max(LEAST_ITEMS)
}

#[cfg(test)]
#[path = "remap_cost_tests.rs"]
mod tests;

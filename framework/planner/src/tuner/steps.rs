//! Implementation of the tuner, which decides whether a running stream changes its arrangement (such as its mapping).

use serde::{Deserialize, Serialize};

use super::decision::{Action, Candidate, Decision, Reason, Situation};
use super::history::{Left, Recent};
use super::options::TunerOptions;
use super::outcome::ChangeOutcome;
use crate::error::Result;
use crate::range::is_less;

/// Maximum number of times that the pause after a change is doubled because changes did not achieve their predicted gain.
const MOST_SETBACKS: u32 = 4;
/// Number of consecutive looks (comparisons of a candidate with the current arrangement) after which a very large gain leads to the first change.
const DECISIVE_LOOKS: u32 = 2;
/// Fraction of the minimum gain that is enough for a change if it is found in many consecutive comparisons.
const SMALL: f64 = 0.5;

/// Decides at each look (comparison of a candidate with the current arrangement) whether a stream changes its arrangement (such as its mapping); see
/// the [module documentation](super).
///
/// The tuner has no clock and takes the time from the [`Situation`]. Equal sequences of looks give equal decisions.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Tuner<A> {
    options: TunerOptions,
    /// Number of consecutive looks (comparisons with the current arrangement) in which gain and profit of a candidate were large enough.
    seen: u32,
    /// Number of consecutive looks (comparisons with the current arrangement) in which gain and profit of a candidate were large enough, where a gain
    /// of half of the threshold counts if the option `patience` is set.
    seen_small: u32,
    state: State,
    left: Left<A>,
    /// Measured seconds per item in each of the last measuring periods, since the stream changed to the current arrangement.
    measured: Recent,
    /// Last change of the arrangement (such as the mapping), while its outcome is not known.
    awaited: Option<Change>,
    outcome: Option<ChangeOutcome>,
    /// Number of consecutive changes that achieved less than half of their predicted gain.
    setbacks: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
enum State {
    /// The arrangement (such as the mapping) with which the stream began is still in use.
    Fresh,
    /// A change of the arrangement (such as the mapping) was decided and is not complete.
    UnderWay(Change),
    /// The last change of the arrangement (such as the mapping) was complete at time `since`; the next one is possible from time `until` on.
    Changed { since: f64, until: f64 },
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
struct Change {
    decided: f64,
    #[serde(rename = "in_force")]
    effective_from: f64,
    expected_cost: f64,
    cost: f64,
    predicted_before: f64,
    predicted_after: f64,
    measured_before: Option<f64>,
}

impl<A: Clone + PartialEq> Tuner<A> {
    /// Creates a tuner with the given options, before the first comparison of a candidate with the current arrangement.
    ///
    /// # Errors
    /// See [`TunerOptions::validate`].
    pub fn new(options: TunerOptions) -> Result<Self> {
        options.validate()?;
        Ok(Tuner {
            options,
            seen: 0,
            seen_small: 0,
            state: State::Fresh,
            left: Left::new(),
            measured: Recent::new(options.outcome_periods),
            awaited: None,
            outcome: None,
            setbacks: 0,
        })
    }

    /// Returns the options of the tuner.
    pub fn options(&self) -> &TunerOptions {
        &self.options
    }

    /// Evaluates one look (comparison of the candidate with the current arrangement). After [`Action::Act`] the tuner waits for a call of
    /// [`acted`](Tuner::acted) or [`abandoned`](Tuner::abandoned).
    pub fn consider(&mut self, situation: Situation<A>, candidate: Option<Candidate<A>>) -> Decision<A> {
        self.observe(&situation);
        let mut decision = self.weigh(situation, candidate);
        decision.action = self.judge(&decision);
        decision.confirmations = self.seen_small;
        if let (Action::Act, Some(candidate)) = (decision.action, &decision.candidate) {
            let situation = &decision.situation;
            self.state = State::UnderWay(Change {
                decided: situation.now,
                effective_from: situation.now,
                expected_cost: candidate.cost,
                cost: candidate.cost,
                predicted_before: situation.current_time,
                predicted_after: candidate.time,
                measured_before: self.measured.median(),
            });
            self.left.add(
                situation.current.clone(),
                situation.now,
                situation.current_time,
                self.options.memory,
            );
            self.forget();
        }
        decision
    }

    /// Records that the decided change of the arrangement (such as the mapping) was complete at time `now` and cost `cost` seconds. Without a pending
    /// decision, the call records a change that the tuner did not decide.
    pub fn acted(&mut self, now: f64, cost: f64) {
        self.awaited = match self.state {
            State::UnderWay(change) => Some(Change { effective_from: now, cost, ..change }),
            State::Fresh | State::Changed { .. } => None,
        };
        self.pause(now, cost);
    }

    /// Records that the decided change of the arrangement (such as the mapping) was not made, and that the old arrangement is still used at time
    /// `now`.
    pub fn abandoned(&mut self, now: f64) {
        if let State::UnderWay(change) = self.state {
            self.setback();
            self.pause(now, change.expected_cost);
        }
    }

    /// Returns the outcome of the last change when enough whole measuring periods in the new arrangement have passed. Only the first call returns it.
    pub fn outcome(&mut self) -> Option<ChangeOutcome> {
        self.outcome.take()
    }

    fn pause(&mut self, now: f64, cost: f64) {
        let TunerOptions { cool_down, cool_down_costs, .. } = self.options;
        let pause = cool_down.max(cool_down_costs * cost.max(0.0)) * f64::from(1_u32 << self.setbacks);
        self.state = State::Changed { since: now, until: now + pause };
        self.measured.clear();
        self.forget();
    }

    fn forget(&mut self) {
        (self.seen, self.seen_small) = (0, 0);
    }

    fn setback(&mut self) {
        self.setbacks = (self.setbacks + 1).min(MOST_SETBACKS);
    }

    /// Returns true if the current arrangement (such as the mapping) was used for the whole last measuring period, so that the measurements are
    /// valid.
    fn is_current(&self, situation: &Situation<A>) -> bool {
        match self.state {
            State::Fresh => true,
            State::UnderWay(_) => false,
            State::Changed { since, .. } => !is_less(situation.now - situation.period, since),
        }
    }

    fn observe(&mut self, situation: &Situation<A>) {
        let measured = situation.measured_time.filter(|time| is_positive(*time));
        let Some(measured) = measured.filter(|_| self.is_current(situation)) else { return };
        self.measured.add(measured);
        let (true, Some(measured_after)) = (self.measured.is_full(), self.measured.median()) else { return };
        if let Some(change) = self.awaited.take() {
            let outcome = ChangeOutcome {
                decided: change.decided,
                effective_from: change.effective_from,
                judged: situation.now,
                expected_cost: change.expected_cost,
                cost: change.cost,
                predicted_before: change.predicted_before,
                predicted_after: change.predicted_after,
                measured_before: change.measured_before,
                measured_after,
            };
            if outcome.is_kept() {
                self.setbacks = 0;
            } else {
                self.setback();
                self.lengthen_pause(change.cost);
            }
            self.outcome = Some(outcome);
        }
    }

    /// Extends the pause after a change whose measured gain was less than half of the predicted gain.
    fn lengthen_pause(&mut self, cost: f64) {
        if let State::Changed { since, .. } = self.state {
            let TunerOptions { cool_down, cool_down_costs, .. } = self.options;
            let pause = cool_down.max(cool_down_costs * cost.max(0.0)) * f64::from(1_u32 << self.setbacks);
            self.state = State::Changed { since, until: since + pause };
        }
    }

    /// Computes the gain, the expected saving and the cost of changing to the candidate, and the limits with which they are compared. The
    /// caller sets the action (change or keep) of the returned decision.
    fn weigh(&self, situation: Situation<A>, candidate: Option<Candidate<A>>) -> Decision<A> {
        let present = situation.current_time;
        let gain = match &candidate {
            Some(candidate) if is_positive(present) && is_positive(candidate.time) => {
                1.0 - candidate.time / present
            }
            _ => 0.0,
        };
        let horizon = match situation.remaining_items {
            Some(items) => items as f64 * present,
            None => situation.elapsed,
        };
        let cost = candidate.as_ref().map_or(0.0, |candidate| candidate.cost);
        let threshold = match &candidate {
            Some(candidate) if self.is_return(&situation, candidate) => {
                (self.options.return_factor * self.options.threshold).min(1.0)
            }
            _ => self.options.threshold,
        };
        Decision {
            gain,
            threshold,
            horizon,
            benefit: gain * horizon,
            price: self.options.margin * cost,
            confirmations: 0,
            situation,
            candidate,
            action: Action::Keep(Reason::Same),
        }
    }

    /// Returns true if the stream used the candidate recently and changed away from it, and the candidate is not clearly faster now than at that
    /// time.
    fn is_return(&self, situation: &Situation<A>, candidate: &Candidate<A>) -> bool {
        let TunerOptions { memory, return_factor, threshold, .. } = self.options;
        let then = self.left.time_of(&candidate.arrangement, situation.now, memory);
        then.is_some_and(|then| candidate.time > then * (1.0 - return_factor * threshold))
    }

    fn judge(&mut self, decision: &Decision<A>) -> Action {
        let Decision { situation, gain, threshold, benefit, price, .. } = decision;
        if !self.options.enabled {
            return Action::Keep(Reason::Off);
        }
        if let State::UnderWay(_) = self.state {
            return Action::Keep(Reason::UnderWay);
        }
        // If a time per item is not a positive number or the cost is negative or NaN, the comparison counts neither for nor against the candidate.
        let usable = |candidate: &Candidate<A>| is_positive(candidate.time) && candidate.cost >= 0.0;
        let is_usable = is_positive(situation.current_time) && decision.candidate.iter().all(usable);
        if !situation.settled || !is_usable || !self.is_current(situation) {
            return Action::Keep(Reason::NotSettled);
        }
        let least = if self.options.patience.is_some() { SMALL } else { 1.0 } * self.options.threshold;
        let failed = match &decision.candidate {
            None => Some(Reason::Same),
            Some(candidate) if candidate.arrangement == situation.current => Some(Reason::Same),
            Some(_) if *gain < least => Some(Reason::GainTooSmall),
            Some(_) if gain < threshold && *threshold > self.options.threshold => Some(Reason::ReturnTooSoon),
            // The condition is written such that a candidate with an infinite or NaN cost is rejected too.
            Some(_) if benefit.partial_cmp(price) != Some(std::cmp::Ordering::Greater) => {
                Some(Reason::NotWorthCost)
            }
            Some(_) => None,
        };
        if let Some(reason) = failed {
            self.forget();
            return Action::Keep(reason);
        }
        // Gains that are found during the pause after a change count for the option `patience`, which requires more comparisons in a row than a pause
        // usually has.
        self.seen_small = self.seen_small.saturating_add(1);
        if let State::Changed { until, .. } = self.state
            && situation.now < until
        {
            self.seen = 0;
            return Action::Keep(Reason::CoolingDown { until });
        }
        self.seen = if gain < threshold { 0 } else { self.seen.saturating_add(1) };
        let TunerOptions { persistence, decisive, patience, .. } = self.options;
        let is_decisive = self.seen >= DECISIVE_LOOKS
            && self.state == State::Fresh
            && decisive.is_some_and(|decisive| *gain >= decisive.max(*threshold));
        if is_decisive
            || self.seen >= persistence
            || patience.is_some_and(|patience| self.seen_small >= patience)
        {
            return Action::Act;
        }
        let needed = patience.unwrap_or(persistence);
        Action::Keep(match self.seen {
            0 => Reason::NotPersistent { seen: self.seen_small, needed },
            seen => Reason::NotPersistent { seen, needed: persistence },
        })
    }
}

fn is_positive(value: f64) -> bool {
    value > 0.0 && value.is_finite()
}

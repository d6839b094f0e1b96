//! Controller of a pipeline on rank 0: decides from measurements and plans whether the pipeline's mapping (assignment of stages to ranks) changes.
//!
//! The planner crate's [`Tuner`] makes the decision. This module computes its input and records the cost of each change of the mapping. An
//! *evaluation* compares the current mapping with another one.

use std::time::Duration;

use armature_planner::pipeline::{Mapping, Plan};
use armature_planner::tuner::{
    Action, Candidate, ChangeOutcome, Decision, Reason, Situation, Tuner, TunerOptions,
};

use super::performance_model::{Inputs, Model, PerformanceModel, REPORT_EVERY};
use super::progress::Progress;
use super::remap_cost::CostUpdate;
use crate::balance::is_affordable;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, Subject};
use crate::session::Balance;

/// Minimum time between two evaluations (comparisons of the current mapping with another one), as a multiple of the duration of the last search for a
/// mapping. An evaluation without a search uses the mapping that an earlier search has found.
const SEARCHES_PER_COMPARISON: u32 = 5;
/// Minimum number of items that must reach the sink between two decisions about the mapping. After [`LONGEST_PERIOD`] one item is enough.
const ITEMS_PER_PERIOD: u64 = 8;
const LONGEST_PERIOD: Duration = Duration::from_secs(2);
/// Factor by which the time between searches for a mapping grows while little has changed since the last search: the speeds of the ranks and the
/// times of the stages are similar, and the predicted time per item has not increased.
const QUIET: u32 = 5;
/// Largest relative difference between two values of a rank's speed, or of a stage's time per item, that count as equal.
const ALIKE: f64 = 0.1;
/// Number of consecutive evaluations in which a mapping must be found better before it is adopted, if its predicted gain is at least half of the
/// threshold for adopting a mapping at once. The evaluations take at least half a second.
const PATIENCE: u32 = 10;
/// Predicted gain with which two evaluations are enough to replace the first mapping of a stream: the new mapping makes the stream twice as fast.
const DECISIVE: f64 = 0.5;
/// Gain that a quick search for a mapping must predict to justify a thorough search, as a fraction of the gain from which a mapping is
/// adopted.
const PROMISING: f64 = 0.5;
/// Minimum time in seconds between two changes of the mapping. The tuner also waits for a multiple of the cost of the last change.
const COOL_DOWN: f64 = 0.5;
/// Minimum assumed cost of a change of the mapping, as a multiple of the time of an item. This is the only estimate until the cost of a change has
/// been measured.
const FIRST_COST_ITEMS: f64 = 8.0;

/// Returns true if `items` items that reached the sink within `period` are enough for a decision about the mapping.
pub(crate) fn is_enough(items: u64, period: Duration) -> bool {
    period >= REPORT_EVERY && (items >= ITEMS_PER_PERIOD || (period >= LONGEST_PERIOD && items > 0))
}

#[derive(Clone, Copy, Debug, Default)]
struct Search {
    at: Duration,
    took: Duration,
    /// Predicted time per item, in seconds, of the mapping that was current at the time of the search.
    current_time: f64,
}

impl Search {
    /// Returns true if another search for a mapping may start at `now`: all searches together may take only a small fraction of the time. For this
    /// check, the processor time of the last search is multiplied by `times`.
    fn is_paid_off(&self, now: Duration, times: u32) -> bool {
        is_affordable(self.took.saturating_mul(times), now.saturating_sub(self.at))
    }

    /// Returns true if the predicted time per item of the current mapping has grown by more than the fraction `worth` since this search.
    fn has_become_worse(&self, current_time: f64, worth: f64) -> bool {
        current_time > (1.0 + worth) * self.current_time
    }
}

#[derive(Debug)]
pub(crate) struct Controller {
    tuner: Tuner<Mapping>,
    once: bool,
    /// Time of the last evaluation of the mapping, and number of items that had reached the sink by then.
    last: Option<(Duration, u64)>,
    /// Last search for a mapping. `thorough` is the last thorough search.
    searched: Search,
    thorough: Option<Search>,
    /// Times of the stages and speeds of the ranks at the last search for a mapping.
    searched_with: Inputs,
    /// Mapping that the last search predicted to be better than the current one. Evaluations between two searches compare it with the current
    /// mapping.
    candidate: Option<Mapping>,
    /// True if the predicted gain of the candidate mapping is large enough for a change, but the tuner waits until the gain has lasted long enough.
    /// Meanwhile no other mapping is searched for.
    persisting: bool,
    /// True if a change of the mapping is complete: the last batch drawn from the source before the change has reached the sink.
    drained: bool,
    /// True during a change of the mapping: batches that were drawn from the source before the change are still in flight.
    draining: bool,
    /// Seconds that the stream lost by the last change of the mapping: the excess over the time at the earlier rate.
    last_cost: f64,
    /// Times of the stages and speeds of the ranks at the last evaluation of the mapping; empty if they are unknown.
    inputs: Inputs,
}

impl Controller {
    /// Returns a controller for a stream whose mapping may change, and `None` for a stream whose mapping is fixed.
    pub(crate) fn new(balance: Balance, ranks: usize) -> Result<Option<Self>> {
        if balance == Balance::Off || ranks == 1 {
            return Ok(None);
        }
        let options = TunerOptions {
            cool_down: COOL_DOWN,
            decisive: Some(DECISIVE),
            patience: Some(PATIENCE),
            ..TunerOptions::default()
        };
        let tuner = Tuner::new(options)
            .map_err(|e| Error::new(ErrorKind::Config, format!("the tuner's options: {e}")))?;
        Ok(Some(Controller {
            tuner,
            once: balance == Balance::Once,
            last: None,
            searched: Search::default(),
            thorough: None,
            searched_with: Inputs::default(),
            candidate: None,
            persisting: false,
            drained: false,
            draining: false,
            last_cost: 0.0,
            inputs: Inputs::default(),
        }))
    }

    pub(crate) fn is_due(&self, s: Progress) -> bool {
        let Some((time, items)) = self.last else { return true };
        let period = s.now.saturating_sub(time);
        !self.draining
            && period >= self.searched.took * SEARCHES_PER_COMPARISON
            && (self.candidate.is_some() || self.searched.is_paid_off(s.now, 1))
            && is_enough(s.items.saturating_sub(items), period)
    }

    /// Returns the smallest predicted gain that justifies a thorough search for a mapping.
    fn worth(&self) -> f64 {
        PROMISING * self.tuner.options().threshold
    }

    fn may_search(&self, now: Duration, current_time: f64) -> bool {
        let has_changed = !self.inputs.are_like(&self.searched_with, ALIKE)
            || self.searched.has_become_worse(current_time, self.worth());
        self.searched.is_paid_off(now, if has_changed { 1 } else { QUIET })
    }

    /// Searches for a mapping, starting from the present one and `known`, a better mapping that was found before.
    ///
    /// A quick search comes first. If it finds a promising gain, a thorough search follows, unless the last thorough search is too recent and the
    /// current mapping has not become worse since then.
    fn search(
        &mut self,
        model: &Model,
        (present, current_time): (&Mapping, f64),
        known: Option<Mapping>,
        now: Duration,
        clock: impl Fn() -> Duration,
    ) -> Result<Plan> {
        let worth = self.worth();
        let begin = clock();
        let mut starts: Vec<Mapping> = [present.clone()].into_iter().chain(known).collect();
        let quick = model.quick_plan(&starts)?;
        let promising = quick.prediction.production_time < (1.0 - worth) * current_time;
        let may = self
            .thorough
            .is_none_or(|last| last.is_paid_off(now, 1) || last.has_become_worse(current_time, worth));
        self.searched_with = self.inputs.clone();
        self.searched = Search { at: now, took: clock().saturating_sub(begin), current_time };
        if !(promising && may) {
            return Ok(quick);
        }
        starts.push(quick.mapping);
        let plan = model.plan(&starts)?;
        self.thorough = Some(Search { took: clock().saturating_sub(begin), ..self.searched });
        Ok(plan)
    }

    /// Compares the current mapping with another one, and returns the decision whether the other one is adopted. The first call returns
    /// `None`: it only starts the measurement of the time per item at the sink. `clock` reads the processor time of this thread.
    pub(crate) fn replan(
        &mut self,
        s: Progress,
        mapping: &Mapping,
        performance_model: &mut PerformanceModel,
        clock: impl Fn() -> Duration,
    ) -> Result<Option<Decision<Mapping>>> {
        let since = self.last.replace((s.now, s.items));
        let Some((time, items)) = since else { return Ok(None) };
        let period = s.now.saturating_sub(time).as_secs_f64();
        let done = s.items.saturating_sub(items);
        let measured = (done > 0).then(|| period / done as f64);
        let settled = performance_model.is_settled(mapping);
        self.inputs = Inputs::default();
        let (current_time, candidate) = if settled && !self.is_finished() {
            let model = performance_model.model(mapping, s.now)?;
            self.inputs = model.inputs();
            let current_time = model.production_time(mapping)?;
            let (arrangement, time) = match self.candidate.take() {
                Some(known) if self.persisting || !self.may_search(s.now, current_time) => {
                    let time = model.production_time(&known)?;
                    (known, time)
                }
                None if !self.may_search(s.now, current_time) => (mapping.clone(), current_time),
                known => {
                    let plan = self.search(&model, (mapping, current_time), known, s.now, clock)?;
                    (plan.mapping, plan.prediction.production_time)
                }
            };
            // The cost of the next change of the mapping is at least the time of `FIRST_COST_ITEMS` items, because the measured loss is zero if the
            // last change sped the stream up at once.
            let disturbance = self.last_cost.max(FIRST_COST_ITEMS * current_time);
            // Items that are in flight when the mapping changes still take the time per item of the old mapping.
            let delay = s.in_flight() as f64 * (current_time - time).max(0.0);
            let cost = performance_model.warm_up_cost(&arrangement) + disturbance + delay;
            (current_time, Some(Candidate { arrangement, time, cost }))
        } else {
            (measured.unwrap_or(0.0), None)
        };
        let situation = Situation {
            now: s.now.as_secs_f64(),
            period,
            elapsed: s.elapsed.as_secs_f64(),
            current: mapping.clone(),
            current_time,
            measured_time: measured,
            remaining_items: s.left,
            settled,
        };
        let decision = self.tuner.consider(situation, candidate);
        // The tuner waits until a small predicted gain has lasted for some time. Searches continue meanwhile, because one may find a better mapping.
        self.persisting = matches!(decision.action, Action::Keep(Reason::NotPersistent { .. }))
            && decision.gain >= decision.threshold;
        if self.persisting || decision.gain > 0.0 {
            self.candidate = decision.candidate.as_ref().map(|c| c.arrangement.clone());
        }
        Ok(Some(decision))
    }

    pub(crate) fn changed(&mut self) {
        self.draining = true;
    }

    pub(crate) fn cost_known(&mut self, s: Progress, update: CostUpdate) {
        match update {
            CostUpdate::Drained { loss } => self.drained(s, loss),
            // The final cost of a change of the mapping is ignored. It is computed with the better time per item after the change, and is
            // therefore mostly the delay of the items in flight, which says nothing about the next change.
            CostUpdate::Settled(_) => {}
        }
    }

    /// Records that the last batch drawn before the change of the mapping has reached the sink. Compared with the time per item before the change,
    /// the stream has lost `loss` seconds.
    fn drained(&mut self, s: Progress, loss: f64) {
        (self.draining, self.drained) = (false, true);
        self.candidate = None;
        // The next evaluation of the mapping counts time and items from now on, when no batch drawn before the change is in flight any more.
        self.last = Some((s.now, s.items));
        self.last_cost = loss.max(0.0);
        self.tuner.acted(s.now.as_secs_f64(), self.last_cost);
    }

    /// Returns true if only one change of the mapping is allowed and has been made. Later evaluations only measure its effect.
    fn is_finished(&self) -> bool {
        self.once && self.drained
    }

    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// Returns the predicted and the measured effect of the last change of the mapping. `None` if it has not been measured yet, or has been
    /// returned before.
    pub(crate) fn outcome(&mut self) -> Option<ChangeOutcome> {
        self.tuner.outcome()
    }
}

pub(crate) fn event(
    decision: &Decision<Mapping>,
    inputs: &Inputs,
    text: impl Fn(&Mapping) -> String,
) -> Event {
    let candidate = decision.candidate.as_ref();
    Event::Decision {
        of: Subject::Mapping,
        current: text(&decision.situation.current),
        candidate: candidate.map(|c| text(&c.arrangement)),
        current_s: decision.situation.current_time,
        candidate_s: candidate.map(|c| c.time),
        gain: decision.gain,
        threshold: decision.threshold,
        benefit_s: decision.benefit,
        cost_s: candidate.map_or(0.0, |c| c.cost),
        works_s: inputs.works.clone(),
        speeds: inputs.speeds.clone(),
        inputs: Vec::new(),
        acted: decision.is_act(),
        reason: decision.reason().unwrap_or_else(|| {
            let confirmations = decision.confirmations;
            format!(
                "the gain is large enough, pays for the change and was confirmed by {confirmations} checks"
            )
        }),
    }
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;

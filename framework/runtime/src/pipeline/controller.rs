//! Rank 0's looks at whether another mapping pays: measurements and plans in, decisions out.
//!
//! The decision is the planner crate's [`Tuner`]; here is what feeds it and what keeps an account of its changes.

use std::time::Duration;

use armature_planner::pipeline::{Mapping, Plan};
use armature_planner::tuner::{
    Candidate, Decision, Outcome, Reason, Situation, Tuner, TunerOptions, Verdict,
};

use super::performance_model::{Inputs, Model, PerformanceModel, REPORT_EVERY};
use super::progress::Progress;
use super::remap_cost::CostUpdate;
use crate::balance::is_affordable;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, Subject};
use crate::session::Balance;

/// Looks at which only a mapping that was found before is compared again are this many times as far apart as a search takes.
const SEARCHES_PER_COMPARISON: u32 = 5;
/// Items after which measurements have something to say, unless a period lasts for so long.
const ITEMS_PER_PERIOD: u64 = 8;
const LONGEST_PERIOD: Duration = Duration::from_secs(2);
/// Searches are this many times as far apart as they [may be](is_affordable) while works and speeds are what they were at the
/// last one, and the present mapping does as well,
const QUIET: u32 = 5;
/// which works and speeds are if they differ by less than this part.
const ALIKE: f64 = 0.1;
/// Looks in a row after which half of the usual gain is enough: many items, half a second at least.
const PATIENCE: u32 = 10;
/// The gain for which the mapping that a stream began with is left at the second look: it makes the stream twice as fast.
const DECISIVE: f64 = 0.5;
/// A gain of this part of the tuner's threshold is worth a thorough search.
const PROMISING: f64 = 0.5;
/// Pause after a change, in seconds, beside the multiple of its cost that the tuner waits for.
const COOL_DOWN: f64 = 0.5;
/// The loss of a change that is assumed before one was seen, in items.
const FIRST_COST_ITEMS: f64 = 8.0;

/// Whether `items` items in a `period` are enough to decide by.
pub(crate) fn is_enough(items: u64, period: Duration) -> bool {
    period >= REPORT_EVERY && (items >= ITEMS_PER_PERIOD || (period >= LONGEST_PERIOD && items > 0))
}

/// A search for a better mapping.
#[derive(Clone, Copy, Debug, Default)]
struct Search {
    at: Duration,
    /// What it took of the processor.
    took: Duration,
    /// The present mapping's time then.
    current_time: f64,
}

impl Search {
    /// Whether it is long enough ago, for `times` times what it took, that there may be another one.
    fn is_paid_off(&self, now: Duration, times: u32) -> bool {
        is_affordable(self.took.saturating_mul(times), now.saturating_sub(self.at))
    }

    /// Whether the mapping that was in force then does worse now, by so much that it matters.
    fn has_become_worse(&self, current_time: f64, worth: f64) -> bool {
        current_time > (1.0 + worth) * self.current_time
    }
}

/// See the module's page.
#[derive(Debug)]
pub(crate) struct Controller {
    tuner: Tuner<Mapping>,
    once: bool,
    /// Time and items at the last look.
    last: Option<(Duration, u64)>,
    /// The last search, and the last one that was thorough.
    searched: Search,
    thorough: Option<Search>,
    /// Works and speeds at the last search.
    searched_with: Inputs,
    /// A mapping that is better than the present one. Between searches looks compare the two.
    candidate: Option<Mapping>,
    /// Whether it pays if that lasts: then nothing else is searched for until it fails.
    persisting: bool,
    /// Whether a change has been made, and all that was drawn before it is through.
    drained: bool,
    /// Whether a change is in force, while batches drawn before it are on their way.
    draining: bool,
    /// What the stream lost by the last change against going on as before, in seconds.
    last_cost: f64,
    /// Works and speeds of the last look; none where they are not known.
    inputs: Inputs,
}

impl Controller {
    /// A tuner for a stream whose mapping may change, `None` for one whose mapping stays.
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

    /// Whether it is time for a look.
    pub(crate) fn is_due(&self, s: Progress) -> bool {
        let Some((time, items)) = self.last else { return true };
        let period = s.now.saturating_sub(time);
        !self.draining
            && period >= self.searched.took * SEARCHES_PER_COMPARISON
            && (self.candidate.is_some() || self.searched.is_paid_off(s.now, 1))
            && is_enough(s.items.saturating_sub(items), period)
    }

    /// The least gain for which more effort is worth it.
    fn worth(&self) -> f64 {
        PROMISING * self.tuner.options().threshold
    }

    /// Whether there may be another search, so long after the last one, with these inputs and this time of the present mapping.
    fn may_search(&self, now: Duration, current_time: f64) -> bool {
        let is_news = !self.inputs.are_like(&self.searched_with, ALIKE)
            || self.searched.has_become_worse(current_time, self.worth());
        self.searched.is_paid_off(now, if is_news { 1 } else { QUIET })
    }

    /// Searches for a mapping from the present one and `known`, a better one that was found before; first quickly. Where that
    /// finds a promising gain a thorough search follows, unless there was one lately and the present mapping does as well as
    /// it did then.
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

    /// One look; `clock` reads the processor time that this thread has used. Returns the decision, if there was anything
    /// to decide.
    pub(crate) fn look(
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
        let (current_time, candidate) = if settled && !self.is_over() {
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
            // A change that sped the stream up at once seems to have cost nothing; the next one need not.
            let disturbance = self.last_cost.max(FIRST_COST_ITEMS * current_time);
            // What is in flight still takes the time that it does now.
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
        // A small gain has to last for so long that something better may be found.
        self.persisting = matches!(decision.verdict, Verdict::Keep(Reason::NotPersistent { .. }))
            && decision.gain >= decision.threshold;
        if self.persisting || decision.gain > 0.0 {
            self.candidate = decision.candidate.as_ref().map(|c| c.arrangement.clone());
        }
        Ok(Some(decision))
    }

    /// A change is in force now, whoever asked for it.
    pub(crate) fn changed(&mut self) {
        self.draining = true;
    }

    /// Something has become known of the last change.
    pub(crate) fn cost_known(&mut self, s: Progress, update: CostUpdate) {
        match update {
            CostUpdate::Drained { loss } => self.drained(s, loss),
            // Most of what a change costs beside the better pace is that items in flight keep the old one. How slow that was
            // has nothing to do with the next change.
            CostUpdate::Settled(_) => {}
        }
    }

    /// The last batch of the old mapping is through. Against going on as before the stream has lost these seconds.
    fn drained(&mut self, s: Progress, loss: f64) {
        (self.draining, self.drained) = (false, true);
        self.candidate = None;
        // Looks measure from now on.
        self.last = Some((s.now, s.items));
        self.last_cost = loss.max(0.0);
        self.tuner.acted(s.now.as_secs_f64(), self.last_cost);
    }

    /// Whether the one change that may be made has been made: then looks only go on to see what came of it.
    fn is_over(&self) -> bool {
        self.once && self.drained
    }

    /// What the last decision stands on.
    pub(crate) fn inputs(&self) -> &Inputs {
        &self.inputs
    }

    /// What came of the last change, once.
    pub(crate) fn outcome(&mut self) -> Option<Outcome> {
        self.tuner.outcome()
    }
}

/// A decision for the log of events; `text` writes a mapping.
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
            let looks = decision.looks;
            format!("the gain is large enough, pays for the change and has lasted for {looks} looks")
        }),
    }
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;

//! Texts about the number of workers of a farm: the events of a check, and the reason for the last change in one sentence.

use armature_planner::farm::{CountOutcome, IterationModel, Repeated, StreamModel};
use armature_planner::tuner::Decision;

use super::situation::Situation;
use crate::observe::number_format::seconds;
use crate::observe::{Event, Input, Subject};

pub(super) fn regret(situation: Situation, outcome: &CountOutcome) -> String {
    format!(
        "{} took {} with {} workers, longer than with {} and longer than predicted; the number of workers is {} again",
        situation.what(),
        seconds(outcome.after_s),
        outcome.after,
        outcome.before,
        outcome.before
    )
}

pub(super) fn why(situation: Situation, wanted: usize, model: &impl Repeated) -> String {
    let what = situation.what();
    format!(
        "{what} was predicted to take {} with {wanted} instead of {} with {}",
        seconds(model.time(wanted)),
        seconds(model.time(situation.workers.max(1))),
        situation.workers
    )
}

pub(super) fn shared(model: &StreamModel) -> Vec<Input> {
    vec![
        Input::new("service time of a worker", model.compute, "s"),
        Input::new("service time of the master", model.serving, "s"),
    ]
}

pub(super) fn inputs(model: &IterationModel) -> Vec<Input> {
    let mut inputs = vec![
        Input::new("time in tasks", model.compute, "s"),
        Input::new("time of the master alone", model.master, "s"),
        Input::new("traffic", model.volume, "bytes"),
        Input::new("share to workers", model.out, ""),
    ];
    let costs = &model.messages;
    inputs.push(Input::new("start-up of a message", costs.start_up.small, "s"));
    if costs.start_up.border.is_finite() {
        inputs.push(Input::new("from", costs.start_up.border, "bytes on"));
        inputs.push(Input::new("then", costs.start_up.large, "s"));
    }
    inputs.push(Input::new("transfer", costs.per_byte, "s/byte"));
    inputs
}

/// Returns the log event about a decision on the number of workers. In the decision, the times of a farm with n workers are
/// multiplied by √n, so that additional workers have a price; the log event contains the times without this factor.
pub(super) fn event(decision: &Decision<usize>, inputs: Vec<Input>, is_settled: bool) -> Event {
    let current = decision.situation.current;
    let candidate = decision.candidate.as_ref().filter(|c| c.arrangement != current);
    let weight = (current.max(1) as f64).sqrt();
    let acted = match is_settled {
        true => "the number of workers changes once at most and has been changed",
        false => "the gain is large enough, pays for the change and has lasted",
    };
    Event::Decision {
        of: Subject::Workers,
        current: current.to_string(),
        candidate: candidate.map(|c| c.arrangement.to_string()),
        current_s: decision.situation.current_time / weight,
        candidate_s: candidate.map(|c| c.time / (c.arrangement.max(1) as f64).sqrt()),
        gain: decision.gain,
        threshold: decision.threshold,
        benefit_s: decision.benefit / weight,
        cost_s: decision.candidate.as_ref().map_or(0.0, |c| c.cost),
        works_s: Vec::new(),
        speeds: Vec::new(),
        inputs,
        acted: decision.is_act() && !is_settled,
        reason: decision.reason().unwrap_or_else(|| acted.to_string()),
    }
}

pub(super) fn outcome_event(outcome: &CountOutcome, change: u32) -> Event {
    let CountOutcome { before_s, predicted_s, after_s, .. } = *outcome;
    Event::Outcome { of: Subject::Workers, epoch: change, before_s, predicted_s, after_s }
}

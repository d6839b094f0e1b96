//! Converts decisions about the movement of units (rows or indices) between ranks to events, for the event log.

use armature_planner::loops::LoopDecision;
use armature_planner::tuner::{Action, Reason};
use armature_text::shown;

use crate::observe::number_format::figures;
use crate::observe::{Event, Input, Subject};
use crate::persist::snapshot::{Checkpoint, Manifest};

pub(super) fn log_resumed(rank: usize, name: &str, checkpoint: &Checkpoint, found: Option<&Manifest>) {
    if let Some(found) = found.filter(|_| rank == 0) {
        log::info!(
            "loop {}: resumes after {} passes from {}",
            shown(name),
            found.pass,
            armature_text::path(&checkpoint.dir)
        );
    }
}

pub(super) fn event(decision: &LoopDecision) -> Event {
    let acted = decision.is_act();
    Event::Decision {
        of: Subject::Units,
        current: figures(&decision.held),
        candidate: (decision.target != decision.held).then(|| figures(&decision.target)),
        current_s: decision.current_time.unwrap_or(f64::INFINITY),
        candidate_s: decision.target_time,
        gain: decision.gain,
        threshold: decision.threshold,
        benefit_s: decision.benefit(),
        cost_s: decision.cost,
        works_s: Vec::new(),
        speeds: Vec::new(),
        inputs: decision
            .rates
            .iter()
            .enumerate()
            .map(|(rank, rate)| Input::new(&format!("rank {rank} does"), *rate, "units/s"))
            .collect(),
        acted,
        reason: match decision.action {
            Action::Act if decision.gain < decision.threshold => "it pays off by the end of the pass",
            Action::Act => "that saves more than it costs",
            Action::Keep(Reason::Off) => "balancing is switched off",
            Action::Keep(Reason::NotSettled) => "not all ranks have reported a rate yet",
            Action::Keep(Reason::Unsure) => "there are too few reports to trust a gain of this size",
            Action::Keep(Reason::Same) => "the distribution matches the rates of the ranks",
            Action::Keep(Reason::GainTooSmall) => "the gain is below the threshold",
            Action::Keep(Reason::NotWorthCost) => "the moves cost too much",
            Action::Keep(_) => "no decision is due",
        }
        .to_string(),
    }
}

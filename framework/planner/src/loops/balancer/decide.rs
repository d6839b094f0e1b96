//! Decisions of a loop balancer from the smoothed rates of the ranks: whether units (loop iterations) move, and which.

use super::{LoopBalancer, UnderWay, shift};
use crate::error::Result;
use crate::loops::decide::decision::LoopDecision;
use crate::loops::decide::realised_gain::Trial;
use crate::loops::distribution::{distribute, pass_time, reduction};
use crate::loops::moves::{Move, busiest};
use crate::loops::rates::interaction::Ahead;
use crate::tuner::{Action, Reason};

impl LoopBalancer {
    fn share_out(&self, decision: &mut LoopDecision, rates: Vec<f64>) {
        decision.target = distribute(decision.held.iter().sum(), &rates, self.options.least);
        decision.gain = reduction(&decision.held, &decision.target, &rates);
        let ends = |time: f64| time.is_finite().then_some(time);
        decision.current_time = ends(pass_time(&decision.held, &rates));
        decision.target_time = ends(pass_time(&decision.target, &rates));
        decision.rates = rates;
    }

    fn is_above(&self, decision: &LoopDecision) -> bool {
        // Even with a threshold of 0, units (loop iterations) do not move without a gain. Otherwise the balancer would exchange equally good
        // distributions.
        decision.gain > 0.0 && decision.gain >= self.threshold(&decision.held)
    }

    /// Decides on moves in the middle of a pass (all units of the loop once), of units that are still to be done in it. The saving ends with the
    /// pass, so it says nothing about how long savings last.
    pub(super) fn decide_rest(&mut self, decision: &mut LoopDecision, rates: Vec<f64>) -> Result<()> {
        self.share_out(decision, rates);
        decision.horizon = decision.current_time;
        decision.margin = decision.margin.map(|margin| margin.min(1.0));
        let moves = self.moves(decision)?;
        decision.action = self.decide_action(decision, &moves, self.is_above(decision));
        if decision.is_act() {
            self.under_way = Some(UnderWay { units: busiest(&moves), lasts: false });
            decision.moves = moves;
        }
        Ok(())
    }

    pub(super) fn decide(
        &mut self,
        decision: &mut LoopDecision,
        rates: Vec<f64>,
        ahead: Ahead,
    ) -> Result<()> {
        self.share_out(decision, rates);
        self.realised_gain.compare(&decision.target, &decision.rates, self.options.threshold);
        let is_above = self.is_above(decision);
        let shift = is_above.then(|| if self.options.realised_gain { shift(decision) } else { Vec::new() });
        self.stability.observe(decision.now, shift.as_deref());
        let stable = self.stability.expected(decision.now);
        let left = match (ahead, decision.current_time) {
            (Ahead::Passes(passes), Some(time)) => Some(passes * time),
            _ => None,
        };
        decision.horizon = [stable, left].into_iter().flatten().reduce(f64::min);
        if let Some(kept) = self.realised_gain.kept().filter(|_| self.options.realised_gain) {
            decision.kept = kept;
            // The expected saving is already reduced to the fraction that past movements achieved, so it need not exceed the cost of the moves
            // several times: the margin is limited to 1.
            decision.margin = decision.margin.map(|margin| margin.min(1.0));
        }
        let moves = self.moves(decision)?;
        decision.action = self.decide_action(decision, &moves, is_above);
        if is_above && !moves.is_empty() {
            let LoopDecision { held, target, gain, .. } = &*decision;
            // The predicted saving of the movement is compared later with the measured one. The prediction assumes that the saving lasts until rates
            // change, even if the loop ends earlier, because only the prediction about rates is tested.
            self.realised_gain.begin(Trial::new(held, target, *gain, stable, decision.is_act()));
        }
        if decision.is_act() {
            self.under_way = Some(UnderWay { units: busiest(&moves), lasts: true });
            decision.moves = moves;
        }
        Ok(())
    }

    fn moves(&self, decision: &mut LoopDecision) -> Result<Vec<Move>> {
        let moves = self.options.reach.moves(&decision.held, &decision.target)?;
        decision.cost = self.costs.costs().unwrap_or(self.options.costs).time(busiest(&moves));
        Ok(moves)
    }

    fn decide_action(&self, decision: &LoopDecision, moves: &[Move], is_above: bool) -> Action {
        if !self.options.enabled {
            return Action::Keep(Reason::Off);
        }
        if moves.is_empty() {
            return Action::Keep(Reason::Same);
        }
        if !is_above {
            let is_enough = decision.gain > 0.0 && decision.gain >= self.options.threshold;
            return Action::Keep(if is_enough { Reason::Unsure } else { Reason::GainTooSmall });
        }
        if decision.is_worth_cost() { Action::Act } else { Action::Keep(Reason::NotWorthCost) }
    }
}

//! Rank 0's side of balancing: reports come in, instructions come out. It sends nothing itself.

use std::time::Duration;

use armature_planner::loops::{
    Ahead, Interaction, LoopBalancer, LoopDecision, Move, RateAccumulator, Reach, Report, tells_rate,
};
use armature_planner::random::Random;
use armature_planner::tuner::{Reason, Verdict};

use super::events::event;
use super::metrics::Sample;
use super::random_shares::random_shares;
use super::settings::Settings;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, Place};
use crate::session::{Balance, Config};

/// What ranks are to do after an interaction.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instruction {
    /// Who sends how many units to whom; empty if nothing moves.
    pub(super) moves: Vec<Move>,
    /// Seconds until the next interaction.
    pub(super) period: f64,
}

/// Collects the samples of the ranks that take part, and decides when all have come.
pub(super) struct LoopController {
    balancer: LoopBalancer,
    reach: Reach,
    balance: Balance,
    measures_quantum: bool,
    synchronous: bool,
    /// Whether ranks run on a real machine, whose processes take turns.
    real_time: bool,
    clock: Clock,
    events: EventLog,
    /// By rank.
    ranks: Vec<RankState>,
    /// The movement that is being made.
    under_way: Option<Movement>,
    forced: Option<Random>,
    /// Nothing was decided or put off yet.
    is_cold: bool,
    interactions: u64,
    movements: u64,
    change: Option<String>,
}

/// What is known of a rank.
#[derive(Clone, Debug, Default)]
struct RankState {
    /// How much of the loop it has, as it last reported.
    held: u64,
    /// Whether it has reported since it was asked to last.
    has_reported: bool,
    /// What came since the last decision.
    sample: Sample,
    /// What it did, with what came before and was too little to tell a rate.
    rate: RateAccumulator,
}

impl RankState {
    /// What the balancer gets, after which a new sample begins.
    fn report(&mut self, shortest: f64) -> Report {
        let Sample { units, seconds, span, .. } = std::mem::take(&mut self.sample);
        self.has_reported = false;
        self.rate.add(units, seconds, span);
        self.rate.report(self.held, shortest)
    }
}

/// A movement that is being made.
struct Movement {
    units: u64,
    messages: u64,
    /// Seconds that it took the rank which it took longest, of those that have made their part.
    seconds: f64,
    done: Vec<bool>,
    why: String,
}

impl LoopController {
    /// For a loop whose ranks have these units at first; ranks beyond them take no part.
    ///
    /// # Errors
    /// If the options cannot be used.
    pub(super) fn new(
        name: &str,
        settings: &Settings,
        config: &Config,
        endpoint: &Endpoint,
        reach: Reach,
        held: &[u64],
    ) -> Result<Self> {
        let balance = settings.balance_of(config);
        let clock = endpoint.clock();
        let mut events = match &config.events {
            Some(dir) => {
                let place = Place {
                    rank: 0,
                    run: endpoint.run().saturating_sub(1),
                    offset: -clock.now().as_secs_f64(),
                };
                EventLog::open(dir, place)
            }
            None => EventLog::off(),
        };
        events.record(clock.now(), || Event::LoopStart {
            name: name.to_string(),
            units: held.iter().sum(),
            held: held.to_vec(),
            balance: format!("{balance:?}").to_lowercase(),
        });
        let balancer = LoopBalancer::new(held.len().max(1), settings.planner(reach, balance))
            .map_err(|error| Error::new(ErrorKind::Config, error.to_string()).in_loop(name))?;
        Ok(LoopController {
            balancer,
            reach,
            balance,
            measures_quantum: settings.quantum.is_none(),
            real_time: endpoint.capabilities().real_time,
            synchronous: settings.synchronous,
            clock,
            events,
            ranks: held.iter().map(|&held| RankState { held, ..RankState::default() }).collect(),
            under_way: None,
            forced: settings.forced.map(Random::new),
            is_cold: true,
            interactions: 0,
            movements: 0,
            change: None,
        })
    }

    /// A rank's sample has come.
    pub(super) fn on_report(&mut self, rank: usize, sample: Sample) {
        let Some(state) = self.ranks.get_mut(rank) else { return };
        (state.held, state.has_reported) = (sample.held, true);
        state.sample = std::mem::take(&mut state.sample).with(sample);
        if let Some(movement) = &mut self.under_way
            && sample.movements > self.movements
        {
            movement.done[rank] = true;
            movement.seconds = movement.seconds.max(sample.moving);
        }
    }

    /// Goes on with what an earlier run of the loop has learned.
    pub(super) fn resume(&mut self, balancer: LoopBalancer) {
        self.balancer = balancer;
    }

    /// What was learned. What a movement took that is not closed is not reported any more.
    pub(super) fn into_balancer(mut self) -> LoopBalancer {
        if self.under_way.is_some() {
            self.balancer.abandoned();
        }
        self.balancer
    }

    /// From now on each rank keeps at least `units` units, where there are enough.
    pub(super) fn set_least(&mut self, units: u64) {
        self.balancer.set_least(units);
    }

    /// Closes the accounts of a movement of which all ranks have reported that they have made their part. Without this it is
    /// done behind the next decision: for loops in which an instruction is carried out one interaction later.
    pub(super) fn close_movement(&mut self) {
        self.finish_movement(self.clock.now().as_secs_f64());
    }

    /// Whether all ranks that take part have reported since they were asked to last.
    pub(super) fn is_due(&self) -> bool {
        self.missing().next().is_none()
    }

    /// Ranks that take part and have not reported since they were asked to last.
    pub(super) fn missing(&self) -> impl Iterator<Item = usize> + '_ {
        self.ranks.iter().enumerate().filter(|(_, rank)| !rank.has_reported).map(|(rank, _)| rank)
    }

    /// Whether all ranks wait for decisions.
    pub(super) fn is_synchronous(&self) -> bool {
        self.synchronous
    }

    /// Where the ranks' turns of their cores cannot have evened out in what was reported, puts the decision off: ranks are
    /// to report again after the time that is returned (s). Without this a rank whose first report falls into a pause
    /// of its core counts as far slower than it is. A first report that is too short is left out: it is of cold caches, and
    /// of connections that were made. Random movements wait for nothing.
    pub(super) fn postpone(&mut self) -> Option<f64> {
        self.know_quantum();
        let shortest = self.balancer.shortest_period();
        let missing =
            |RankState { sample, .. }: &RankState| match tells_rate(sample.seconds, sample.span, shortest) {
                true => 0.0,
                false => shortest - sample.seconds,
            };
        let missing = self.ranks.iter().map(missing).fold(0.0, f64::max);
        let is_cold = std::mem::take(&mut self.is_cold);
        if self.forced.is_some() || missing == 0.0 {
            return None;
        }
        for rank in &mut self.ranks {
            rank.has_reported = false;
            if is_cold {
                rank.sample = Sample::default();
            }
        }
        Some(missing)
    }

    /// What was reported up to now is of work that is done in another way from now on. Rates are measured anew.
    pub(super) fn forget_rates(&mut self) {
        self.balancer.forget_rates();
        for rank in &mut self.ranks {
            rank.rate = RateAccumulator::default();
        }
    }

    /// Leaves out what was reported since the last decision. Ranks are to report again after the time that is returned (s).
    pub(super) fn discard_reports(&mut self) -> f64 {
        for rank in &mut self.ranks {
            (rank.sample, rank.has_reported) = (Sample::default(), false);
        }
        self.balancer.shortest_period()
    }

    /// Gives the balancer the time for which other processes have a core in one turn, as the rank that has met most of it sees it.
    fn know_quantum(&mut self) {
        let seen = self.ranks.iter().map(|rank| rank.sample.quantum).fold(0.0, f64::max);
        if self.measures_quantum && !self.real_time {
            // Simulated hosts share their time evenly.
            self.balancer.set_quantum(0.0);
        } else if self.measures_quantum && seen > 0.0 {
            self.balancer.set_quantum(seen);
        }
    }

    /// Decides, with what has been reported; `ahead` says what is still to be done. Where [not all](LoopController::is_due) have
    /// reported, the others are taken to have done nothing new.
    ///
    /// # Errors
    /// If a report cannot be used; a rank that measures rightly sends none such.
    pub(super) fn decide(&mut self, ahead: Ahead) -> Result<Instruction> {
        let begin = self.clock.now();
        let now = begin.as_secs_f64();
        self.interactions += 1;
        self.know_quantum();
        let ranks = self.ranks.len().max(1) as f64;
        let cost = self.ranks.iter().map(|rank| rank.sample.hooks).sum::<f64>() / ranks;
        let shortest = self.balancer.shortest_period();
        let reports: Vec<Report> = self.ranks.iter_mut().map(|rank| rank.report(shortest)).collect();
        let held: Vec<u64> = reports.iter().map(|report| report.held).collect();
        // Ranks are to report after some seconds, not after how many phases.
        let decided =
            self.balancer.interact(&Interaction { now, reports: &reports, phase: 0.0, cost, ahead });
        let decision = decided.map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
        self.finish_movement(now);
        let moves = match &mut self.forced {
            Some(random) if self.under_way.is_none() => random_moves(random, self.reach, &held)?,
            Some(_) => Vec::new(),
            None => decision.moves.clone(),
        };
        if self.forced.is_some() && !moves.is_empty() {
            self.balancer.impose(&moves);
        }
        self.record_decision(begin, &decision);
        if !moves.is_empty() {
            self.under_way = Some(Movement {
                units: moves.iter().map(|m| m.units).sum(),
                messages: moves.len() as u64,
                seconds: 0.0,
                done: vec![false; held.len()],
                why: decision.to_string(),
            });
        }
        Ok(Instruction { moves, period: decision.period })
    }

    /// Closes the accounts of a movement of which all ranks have made their part.
    fn finish_movement(&mut self, now: f64) {
        let Some(movement) = self.under_way.take_if(|movement| movement.done.iter().all(|done| *done)) else {
            return;
        };
        self.movements += 1;
        self.balancer.moved(now, movement.seconds);
        let Movement { units, messages, seconds, why, .. } = movement;
        self.change = Some(why);
        let number = self.movements;
        self.events.record(Duration::from_secs_f64(now), || Event::Moved {
            number,
            units,
            messages,
            seconds,
        });
        if self.balance == Balance::Once {
            self.balancer.stop();
        }
    }

    fn record_decision(&mut self, at: Duration, decision: &LoopDecision) {
        // Interactions while units are on their way mean nothing.
        if decision.verdict == Verdict::Keep(Reason::UnderWay) {
            return;
        }
        log::debug!("{decision}");
        self.events.record(at, || event(decision));
    }

    /// The run has ended, after `passes` and this time.
    pub(super) fn end(&mut self, passes: u64, elapsed: Duration) {
        self.record(|| Event::LoopEnd { passes, seconds: elapsed.as_secs_f64() });
    }

    /// Records an event of the loop's own.
    pub(super) fn record(&mut self, event: impl FnOnce() -> Event) {
        self.events.record(self.clock.now(), event);
    }

    /// Interactions so far.
    pub(super) fn interactions(&self) -> u64 {
        self.interactions
    }

    /// Movements so far; one that is still being made counts.
    pub(super) fn movements(&self) -> u64 {
        self.movements + u64::from(self.under_way.is_some())
    }

    /// Why units moved last.
    pub(super) fn change(&self) -> Option<String> {
        self.under_way.as_ref().map(|movement| movement.why.clone()).or_else(|| self.change.clone())
    }
}

/// Moves to shares drawn at random, some of them far smaller than others: for tests.
fn random_moves(random: &mut Random, reach: Reach, held: &[u64]) -> Result<Vec<Move>> {
    let target = random_shares(random, held.iter().sum(), held.len());
    reach.moves(held, &target).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;

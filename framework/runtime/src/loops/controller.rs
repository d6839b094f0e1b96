//! Balancing on rank 0: turns the reports of the ranks into instructions that move units of a loop (rows or
//! indices) between ranks. The controller sends no messages itself.

use std::time::Duration;

use armature_planner::loops::{
    Ahead, Interaction, LoopBalancer, LoopDecision, Move, RateAccumulator, Reach, Report, has_averaged_out,
};
use armature_planner::random::Random;
use armature_planner::tuner::{Action, Reason};

use super::events::event;
use super::metrics::Sample;
use super::random_shares::random_shares;
use super::settings::Settings;
use crate::comm::clock::Clock;
use crate::comm::endpoint::Endpoint;
use crate::error::{Error, ErrorKind, Result};
use crate::observe::{Event, EventLog, LogOrigin};
use crate::session::{Balance, Config};

/// Instruction of rank 0 to all ranks of a loop: movements of units (rows or indices), and the time of the next reports of
/// measurements.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Instruction {
    /// Movements of units (rows or indices) from rank to rank; empty if nothing moves.
    pub(super) moves: Vec<Move>,
    pub(super) period: f64,
}

/// Collects reports of measurements from the ranks that have units (rows or indices). When all have reported, it decides whether units move
/// between ranks.
pub(super) struct LoopController {
    balancer: LoopBalancer,
    reach: Reach,
    balance: Balance,
    measures_quantum: bool,
    /// True on a real machine, where a rank's process may be off its core during a short report interval, so that rank 0 waits for longer reports;
    /// false in a simulator.
    real_time: bool,
    clock: Clock,
    events: EventLog,
    ranks: Vec<RankState>,
    under_way: Option<Movement>,
    forced: Option<Random>,
    /// True until rank 0 has made or postponed its first decision about movements of units (rows or indices).
    is_cold: bool,
    interactions: u64,
    movements: u64,
    change: Option<String>,
}

/// Number of units (rows or indices) of a rank, and its measurements, from its reports to rank 0.
#[derive(Clone, Debug, Default)]
struct RankState {
    /// Units (rows or indices) that the rank held at its last report to rank 0.
    held: u64,
    has_reported: bool,
    /// Sum of the measurements that the rank has reported since rank 0's last decision about movements of units (rows or indices).
    sample: Sample,
    /// Computed units (rows or indices) and computing time, summed over the rank's reports until they cover enough time to determine how fast
    /// it computes.
    rate: RateAccumulator,
}

impl RankState {
    fn report(&mut self, shortest: f64) -> Report {
        let Sample { units, seconds, span, .. } = std::mem::take(&mut self.sample);
        self.has_reported = false;
        self.rate.add(units, seconds, span);
        self.rate.report(self.held, shortest)
    }
}

/// Movement of units (rows or indices) between ranks that is in progress.
struct Movement {
    units: u64,
    messages: u64,
    /// Longest time in seconds that a rank has spent on sending and receiving the units (rows or indices) of this movement, over the ranks that
    /// have done so.
    seconds: f64,
    done: Vec<bool>,
    why: String,
}

impl LoopController {
    /// Creates the controller of a loop; `held` is the initial number of units (rows or indices) of each rank. Ranks beyond the end of `held`
    /// have no units.
    ///
    /// # Errors
    /// If the options of the loop cannot be used.
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
                let origin = LogOrigin {
                    rank: 0,
                    run: endpoint.run().saturating_sub(1),
                    offset: -clock.now().as_secs_f64(),
                };
                EventLog::open(dir, origin)
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

    /// Replaces the balancer by that of an earlier run of the loop, which has learned the speeds of the ranks and the costs of moving units
    /// (rows or indices).
    pub(super) fn resume(&mut self, balancer: LoopBalancer) {
        self.balancer = balancer;
    }

    /// Returns the balancer for the next run of the loop. If a movement of units (rows or indices) is in progress, the balancer no longer waits
    /// for its measured cost.
    pub(super) fn into_balancer(mut self) -> LoopBalancer {
        if self.under_way.is_some() {
            self.balancer.abandoned();
        }
        self.balancer
    }

    pub(super) fn set_least(&mut self, units: u64) {
        self.balancer.set_least(units);
    }

    /// Reports the cost of the movement in progress to the balancer, if all ranks have sent and received their units (rows or indices). Loops
    /// that carry out an instruction only after the next reports need not call this function: the next decision then reports the cost.
    pub(super) fn close_movement(&mut self) {
        self.finish_movement(self.clock.now().as_secs_f64());
    }

    pub(super) fn is_due(&self) -> bool {
        self.ranks.iter().all(|rank| rank.has_reported)
    }

    /// Returns the seconds until ranks report again, if their reports cover too few time slices of the
    /// scheduler for a decision; otherwise `None`. A rank whose process was off its core during a short
    /// report would count as far too slow. A short first report is discarded, because it measures cold caches
    /// and the setup of connections. Random movements (an option for tests) are not postponed.
    pub(super) fn postpone(&mut self) -> Option<f64> {
        self.know_quantum();
        let shortest = self.balancer.shortest_period();
        let missing = |RankState { sample, .. }: &RankState| match has_averaged_out(
            sample.seconds,
            sample.span,
            shortest,
        ) {
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

    /// Discards the measured rates (rows or indices per second) of the ranks, because from now on the loop computes in blocks of another size,
    /// with other rates.
    pub(super) fn forget_rates(&mut self) {
        self.balancer.forget_rates();
        for rank in &mut self.ranks {
            rank.rate = RateAccumulator::default();
        }
    }

    /// Discards the measurements that ranks have reported since the last decision about units (rows or indices). Returns the seconds after
    /// which ranks are to report again.
    pub(super) fn discard_reports(&mut self) -> f64 {
        for rank in &mut self.ranks {
            (rank.sample, rank.has_reported) = (Sample::default(), false);
        }
        self.balancer.shortest_period()
    }

    /// Passes the largest of the ranks' estimates of the scheduler's quantum (time slice of a process) to the balancer.
    fn know_quantum(&mut self) {
        let seen = self.ranks.iter().map(|rank| rank.sample.quantum).fold(0.0, f64::max);
        if self.measures_quantum && !self.real_time {
            // Simulated hosts share their cores without time slices, so the quantum is zero.
            self.balancer.set_quantum(0.0);
        } else if self.measures_quantum && seen > 0.0 {
            self.balancer.set_quantum(seen);
        }
    }

    /// Decides about movements of units (rows or indices) from the reports received; `ahead` is the remaining work of the loop. If [not
    /// all](LoopController::is_due) ranks have reported, the missing ranks count as having computed nothing since their last reports.
    ///
    /// # Errors
    /// If a report is invalid. Correct measurements never are.
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
        // `phase`, the time between two points at which ranks can report, is zero, because reports are requested after a time and not after a number
        // of such points.
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

    /// Reports the measured cost of the movement of units (rows or indices) in progress to the balancer, once all ranks have sent and received
    /// their units.
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
        // A decision made while units (rows or indices) are on their way between ranks never moves units, so it is not logged.
        if decision.action == Action::Keep(Reason::UnderWay) {
            return;
        }
        log::debug!("{decision}");
        self.events.record(at, || event(decision));
    }

    pub(super) fn end(&mut self, passes: u64, elapsed: Duration) {
        self.record(|| Event::LoopEnd { passes, seconds: elapsed.as_secs_f64() });
    }

    pub(super) fn record(&mut self, event: impl FnOnce() -> Event) {
        self.events.record(self.clock.now(), event);
    }

    /// Returns the number of interactions with the balancer so far. In each, all ranks report measurements, and rank 0 decides whether units
    /// (rows or indices) move.
    pub(super) fn interactions(&self) -> u64 {
        self.interactions
    }

    pub(super) fn movements(&self) -> u64 {
        self.movements + u64::from(self.under_way.is_some())
    }

    pub(super) fn change(&self) -> Option<String> {
        self.under_way.as_ref().map(|movement| movement.why.clone()).or_else(|| self.change.clone())
    }
}

/// For tests: returns movements that distribute the units (rows or indices) at random, so that some ranks have far fewer units than others.
fn random_moves(random: &mut Random, reach: Reach, held: &[u64]) -> Result<Vec<Move>> {
    let target = random_shares(random, held.iter().sum(), held.len());
    reach.moves(held, &target).map_err(|error| Error::new(ErrorKind::Config, error.to_string()))
}

#[cfg(test)]
#[path = "controller_tests.rs"]
mod tests;

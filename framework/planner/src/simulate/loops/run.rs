//! The simulated loop, pass by pass.

use super::processor::Processor;
use super::{Balancing, LoopRun, LoopSystem};
use crate::error::Result;
use crate::loops::{
    Interaction, LoopBalancer, LoopDecision, Move, RankTime, Report, busiest, distribute, rounds,
};
use crate::random::Random;

/// A rank changes its speed from pass to pass by noise, but not to less than this part of it.
const SLOWEST: f64 = 0.01;

pub(super) fn run(system: &LoopSystem, balancing: &Balancing) -> Result<LoopRun> {
    let ranks = system.speeds.len();
    let balancer = match balancing {
        Balancing::Off => None,
        Balancing::Pipelined(options) | Balancing::Synchronous(options) => {
            Some(LoopBalancer::new(ranks, options.clone())?)
        }
    };
    let load = |rank: usize| system.loads.iter().copied().find(|load| load.rank == rank);
    let mut state = State {
        system,
        now: 0.0,
        held: distribute(system.units, &vec![1.0; ranks], 0),
        processors: (0..ranks).map(|rank| Processor::new(system.sharing, load(rank))).collect(),
        random: Random::new(system.seed),
        reports: vec![Report::default(); ranks],
        pending: None,
        is_pipelined: matches!(balancing, Balancing::Pipelined(_)),
        movements: 0,
        moving: 0.0,
        decisions: Vec::new(),
    };
    state.all_passes(balancer)?;
    let State { now, held, mut processors, movements, moving, decisions, .. } = state;
    let times = system.speeds.iter().zip(&mut processors);
    Ok(LoopRun {
        elapsed: now,
        sequential: system.units as f64 * system.passes as f64 * system.unit,
        ranks: times.map(|(&speed, p)| RankTime { speed, competing: p.competing(now) }).collect(),
        movements,
        moving,
        held,
        decisions,
    })
}

struct State<'a> {
    system: &'a LoopSystem,
    now: f64,
    held: Vec<u64>,
    processors: Vec<Processor>,
    random: Random,
    /// What each rank did since the last interaction.
    reports: Vec<Report>,
    /// Moves that are carried out at the next interaction.
    pending: Option<Vec<Move>>,
    is_pipelined: bool,
    movements: u64,
    moving: f64,
    decisions: Vec<LoopDecision>,
}

impl State<'_> {
    fn all_passes(&mut self, mut balancer: Option<LoopBalancer>) -> Result<()> {
        let (mut next, mut last, mut since) = (1, 0.0, 0_u32);
        for pass in 1..=self.system.passes {
            self.pass();
            since += 1;
            if let Some(balancer) = balancer.as_mut().filter(|_| pass == next) {
                let phase = (self.now - last) / f64::from(since);
                next = pass + self.interact(balancer, phase)?;
                (last, since) = (self.now, 0);
            }
        }
        Ok(())
    }

    /// Does all units once. The pass ends when the last rank has done its own.
    fn pass(&mut self) {
        let LoopSystem { unit, noise, speeds, .. } = self.system;
        let mut end = self.now;
        for (rank, processor) in self.processors.iter_mut().enumerate() {
            let units = self.held[rank] as f64;
            let speed = speeds[rank] * (1.0 + noise * self.random.normal()).max(SLOWEST);
            let done = processor.compute(self.now, units * unit / speed);
            self.reports[rank].units += units;
            self.reports[rank].seconds += done - self.now;
            end = end.max(done);
        }
        self.now = end;
    }

    /// Reports, and moves what is to be moved. Returns the number of passes until the next time.
    fn interact(&mut self, balancer: &mut LoopBalancer, phase: f64) -> Result<u64> {
        for (report, &held) in self.reports.iter_mut().zip(&self.held) {
            report.held = held;
        }
        let decision = balancer.interact(&Interaction {
            now: self.now,
            reports: &self.reports,
            phase,
            cost: self.system.interaction,
            passes_left: None,
        })?;
        self.now += self.system.interaction;
        if let Some(moves) = self.pending.take() {
            self.move_units(&moves, balancer)?;
        } else if decision.is_act() && self.is_pipelined {
            self.pending = Some(decision.moves.clone());
        } else if decision.is_act() {
            self.move_units(&decision.moves, balancer)?;
        }
        self.reports.fill(Report::default());
        let phases = decision.phases;
        self.decisions.push(decision);
        Ok(phases)
    }

    fn move_units(&mut self, moves: &[Move], balancer: &mut LoopBalancer) -> Result<()> {
        for m in rounds(&self.held, moves)?.into_iter().flatten() {
            self.held[m.from] -= m.units;
            self.held[m.to] += m.units;
        }
        let seconds = self.system.movement.time(busiest(moves));
        self.now += seconds;
        self.movements += 1;
        self.moving += seconds;
        balancer.moved(self.now, seconds);
        Ok(())
    }
}

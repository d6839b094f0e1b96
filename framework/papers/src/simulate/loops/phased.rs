//! Simulation of a loop pass by pass, as in the paper of Siegell and Steenkiste: all ranks meet after each pass, and
//! stop while units of the loop (rows or indices) move between ranks.

use armature_planner::Result;
use armature_planner::loops::{Ahead, Interaction, LoopBalancer, Move, Report, busiest, distribute, rounds};
use armature_planner::random::Random;

use super::course::Course;
use super::effort::Effort;
use super::processor::Processor;
use super::system::{LoopRun, LoopSystem};

/// Simulates the loop. Decisions of the balancer are carried out when the ranks next report if they are pipelined,
/// else at once.
pub(super) fn run(
    system: &LoopSystem,
    balancer: Option<LoopBalancer>,
    is_pipelined: bool,
) -> Result<LoopRun> {
    let ranks = system.speeds.len();
    let effort = Effort::default();
    let mut state = State {
        system,
        now: 0.0,
        held: distribute(system.units, &vec![1.0; ranks], 0),
        processors: system.processors(&effort).collect(),
        random: Random::new(system.seed),
        reports: vec![Report::default(); ranks],
        pending: None,
        is_pipelined,
        course: Course::default(),
        effort,
    };
    state.all_passes(balancer)?;
    let State { now, held, processors, course, .. } = state;
    Ok(course.end(system, now, processors.into_iter().zip(held).collect()))
}

struct State<'a> {
    system: &'a LoopSystem,
    now: f64,
    held: Vec<u64>,
    processors: Vec<Processor>,
    random: Random,
    /// Work of each rank since its last report to the balancer.
    reports: Vec<Report>,
    /// Rows or indices of the loop that will move when the ranks next report to the balancer.
    pending: Option<Vec<Move>>,
    is_pipelined: bool,
    course: Course,
    effort: Effort,
}

impl State<'_> {
    fn all_passes(&mut self, mut balancer: Option<LoopBalancer>) -> Result<()> {
        let (mut next, mut last, mut since) = (1, 0.0, 0_u32);
        for pass in 1..=self.system.passes {
            self.pass();
            self.effort.check()?;
            since += 1;
            if let Some(balancer) = balancer.as_mut().filter(|_| pass == next) {
                let phase = (self.now - last) / f64::from(since);
                next = pass.saturating_add(self.interact(balancer, phase)?);
                (last, since) = (self.now, 0);
            }
        }
        Ok(())
    }

    fn pass(&mut self) {
        let mut end = self.now;
        for (rank, processor) in self.processors.iter_mut().enumerate() {
            let units = self.held[rank] as f64;
            let unit = self.system.unit_in_pass(rank, &mut self.random);
            let done = processor.compute(self.now, units * unit);
            self.reports[rank].units += units;
            self.reports[rank].seconds += done - self.now;
            end = end.max(done);
        }
        self.now = end;
    }

    /// Simulates the reports of all ranks to the balancer, and the movement of rows or indices between ranks. Returns
    /// the number of passes until the next reports.
    fn interact(&mut self, balancer: &mut LoopBalancer, phase: f64) -> Result<u64> {
        for (report, &held) in self.reports.iter_mut().zip(&self.held) {
            report.held = held;
        }
        let decision = balancer.interact(&Interaction {
            now: self.now,
            reports: &self.reports,
            phase,
            cost: self.system.interaction,
            ahead: Ahead::Unknown,
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
        self.course.decisions.push(decision);
        self.effort.decision(self.held.len());
        Ok(phases)
    }

    fn move_units(&mut self, moves: &[Move], balancer: &mut LoopBalancer) -> Result<()> {
        for m in rounds(&self.held, moves)?.into_iter().flatten() {
            self.held[m.from] -= m.units;
            self.held[m.to] += m.units;
        }
        let seconds = self.system.movement.time(busiest(moves));
        self.now += seconds;
        self.course.movements += 1;
        self.course.moving += seconds;
        balancer.moved(self.now, seconds);
        Ok(())
    }
}

//! Simulation of a loop of independent units (rows or indices) that move between ranks while the ranks compute, also
//! in the middle of a pass, as in real programs.

use armature_planner::Result;
use armature_planner::loops::{Ahead, Interaction, LEAST_PERIOD, LoopBalancer, Move, SOON, distribute};
use armature_planner::random::Random;

use super::course::Course;
use super::effort::Effort;
use super::system::{LoopRun, LoopSystem};
use super::worker::SimulatedWorker;

pub(super) fn run(system: &LoopSystem, balancer: LoopBalancer) -> Result<LoopRun> {
    let held = distribute(system.units, &vec![1.0; system.speeds.len()], 0);
    let effort = Effort::default();
    let mut state = State {
        system,
        balancer,
        now: 0.0,
        workers: system
            .processors(&effort)
            .zip(held)
            .map(|(processor, held)| SimulatedWorker::new(processor, held))
            .collect(),
        movement: None,
        due: f64::INFINITY,
        course: Course::default(),
        effort,
    };
    let mut random = Random::new(system.seed);
    for passes_left in (1..=system.passes).rev() {
        for (rank, worker) in state.workers.iter_mut().enumerate() {
            worker.begin(state.now, system.unit_in_pass(rank, &mut random));
        }
        if passes_left < system.passes {
            state.decide(Ahead::Passes(passes_left as f64))?;
        }
        state.pass()?;
    }
    let State { now, workers, course, .. } = state;
    Ok(course.end(system, now, workers.into_iter().map(SimulatedWorker::end).collect()))
}

struct State<'a> {
    system: &'a LoopSystem,
    balancer: LoopBalancer,
    now: f64,
    workers: Vec<SimulatedWorker>,
    movement: Option<Movement>,
    /// Time at which the ranks next report to the balancer, unless a rank has no rows or indices left to compute
    /// before.
    due: f64,
    course: Course,
    effort: Effort,
}

struct Movement {
    begin: f64,
    /// Messages that carry rows or indices of the loop to another rank, each with its arrival time.
    messages: Vec<(f64, Move)>,
}

impl State<'_> {
    fn pass(&mut self) -> Result<()> {
        while let Some(next) = self.next_event() {
            self.effort.step();
            self.effort.check()?;
            self.now = next;
            for worker in &mut self.workers {
                if worker.follow(next) {
                    // A rank without rows or indices left makes the other ranks report when they next poll for
                    // messages (at a hook).
                    self.due = self.due.min(next + self.system.hook);
                }
            }
            self.arrive();
            if next < self.due || self.movement.is_some() {
                continue;
            }
            let longest = self.workers.iter().map(|worker| worker.left(next)).fold(0.0, f64::max);
            if longest > SOON {
                self.decide(Ahead::RestOfPass)?;
            } else {
                self.due = f64::INFINITY;
            }
        }
        Ok(())
    }

    /// Returns the next time at which a rank has computed all its rows or indices, a message with rows or indices
    /// arrives, or reports are due; `None` at the end of the pass.
    fn next_event(&self) -> Option<f64> {
        let ends = self.workers.iter().filter_map(SimulatedWorker::done_at);
        let arrivals = self.movement.iter().flat_map(|m| m.messages.iter().map(|message| message.0));
        let next = ends.chain(arrivals).reduce(f64::min)?;
        // Ranks do not report while rows or indices of the loop are being moved.
        Some(if self.movement.is_none() { next.min(self.due.max(self.now)) } else { next })
    }

    fn decide(&mut self, ahead: Ahead) -> Result<()> {
        let shortest = self.balancer.shortest_period();
        let reports: Vec<_> =
            self.workers.iter_mut().map(|worker| worker.report(self.now, shortest)).collect();
        // A rank keeps at least one row or index of the loop for the following passes, because its speed could never
        // be measured again without. In the rest of a pass, a slow rank may have none left to compute.
        self.balancer.set_least(if ahead == Ahead::RestOfPass { 0 } else { 1 });
        let decision = self.balancer.interact(&Interaction {
            now: self.now,
            reports: &reports,
            phase: 0.0,
            cost: self.system.interaction,
            ahead,
        })?;
        self.workers.iter_mut().for_each(|worker| worker.pause(self.now, self.system.interaction));
        self.due = self.now + decision.period.max(LEAST_PERIOD);
        if decision.is_act() {
            self.send(&decision.moves);
        }
        self.course.decisions.push(decision);
        self.effort.decision(self.workers.len());
        Ok(())
    }

    /// Starts to move rows or indices of the loop between ranks. The messages on a rank's link, in each direction,
    /// are sent one after the other. The fixed part of the cost of a movement is computing time of the ranks that
    /// send or receive.
    fn send(&mut self, moves: &[Move]) {
        let costs = self.system.movement;
        for m in moves {
            self.workers[m.from].assign(m.units);
        }
        let mut through = vec![(0, 0); self.workers.len()];
        for m in moves {
            through[m.from].0 += m.units;
            through[m.to].1 += m.units;
        }
        for (worker, _) in self.workers.iter_mut().zip(&through).filter(|(_, through)| **through != (0, 0)) {
            worker.pause(self.now, costs.fixed);
        }
        let arrival = |m: &Move| self.now + costs.time(through[m.from].0.max(through[m.to].1));
        let messages = moves.iter().map(|m| (arrival(m), *m)).collect();
        self.movement = Some(Movement { begin: self.now, messages });
    }

    fn arrive(&mut self) {
        let Some(movement) = &mut self.movement else { return };
        let (now, workers) = (self.now, &mut self.workers);
        for (_, m) in movement.messages.extract_if(.., |(at, _)| *at <= now) {
            workers[m.to].take(now, m.units);
        }
        if movement.messages.is_empty() {
            self.course.movements += 1;
            self.course.moving += now - movement.begin;
            self.balancer.moved(now, self.system.movement.fixed);
            self.movement = None;
        }
    }
}

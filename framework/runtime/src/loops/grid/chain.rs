//! The coordinator of a loop over a grid, whose directives go down the chain of ranks: reports in, directives out.

use std::time::Duration;

use armature_planner::loops::{Ahead, block_moves};

use super::directive::{Directive, Movement};
use super::messages::ToCoordinator;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::controller::Instruction;
use crate::loops::coordinator::{Coordinator, Learned};
use crate::loops::summary::{RankReport, Summary};
use crate::observe::{Event, Progress};
use crate::rank::hold_up::ranks_of;

/// What rank 0 knows of all ranks.
pub(super) struct Chain {
    pub(super) of_run: Coordinator,
    /// Rows of each rank that has any, once all movements are made.
    held: Vec<u64>,
    sweeps: u64,
    /// What a sweep is called, and how many an earlier job has done.
    earlier: (&'static str, u64),
    /// Whether they were to be more.
    is_stopped: bool,
    /// Whether movements are drawn at random, as often as can be.
    eager: bool,
    /// When the last sweep began.
    sweep_began: Option<Duration>,
    /// The sweep before which reports were asked for last, and when.
    asked: (u64, Duration),
    totals: Vec<Option<RankReport>>,
    /// Sweeps that each rank has done, as it has said last; in a simulator it says nothing.
    done: Vec<Option<f64>>,
    /// From which sweep on, and after which, ranks report next.
    report_from: u64,
    report_after: u64,
    /// The size of blocks in the present sweep, …
    grain: u64,
    /// … and sweeps from which on it is another, of which no report has come.
    regrained: Vec<u64>,
}

impl Chain {
    pub(super) fn new(of_run: Coordinator, sweeps: u64, eager: bool, now: Duration) -> Self {
        let held = of_run.first.clone();
        Chain {
            of_run,
            totals: vec![None; held.len()],
            done: vec![None; held.len()],
            held,
            sweeps,
            earlier: ("sweeps", 0),
            is_stopped: false,
            eager,
            sweep_began: None,
            asked: (0, now),
            report_from: 0,
            report_after: 0,
            grain: 0,
            regrained: Vec::new(),
        }
    }

    /// A rank has reported.
    ///
    /// # Errors
    /// If a checkpoint cannot be made of what ranks have written.
    pub(super) fn on_message(&mut self, rank: usize, message: ToCoordinator) -> Result<()> {
        match message {
            ToCoordinator::Saved(pass, saved) => self.of_run.on_saved(rank, pass, saved)?,
            ToCoordinator::Sample(sample) => self.of_run.controller.on_report(rank, sample),
            ToCoordinator::Total(report) => {
                if let Some(total) = self.totals.get_mut(rank) {
                    *total = Some(report);
                }
            }
            ToCoordinator::Done(sweeps) => {
                if let Some(done) = self.done.get_mut(rank) {
                    *done = Some(sweeps);
                }
            }
            // Whoever makes the checks takes it.
            ToCoordinator::Residual(..) => {}
        }
        Ok(())
    }

    /// There is no sweep from this one on. A movement that was ordered for later is not made.
    pub(super) fn stop(&mut self, sweep: u64) {
        self.sweeps = sweep;
        self.is_stopped = true;
    }

    /// Ranks that have not reported that they are done.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.totals.len()).filter(|&rank| self.totals[rank].is_none()).collect()
    }

    /// Whether this rank has reported that it is done.
    pub(super) fn is_done(&self, rank: usize) -> bool {
        self.totals.get(rank).is_some_and(Option::is_some)
    }

    /// A sweep begins now; returns the seconds that the one before took.
    pub(super) fn begin_sweep(&mut self, sweep: u64, now: Duration) -> Option<f64> {
        let before = self.sweep_began.replace(now).filter(|_| sweep > 0)?;
        Some(now.saturating_sub(before).as_secs_f64())
    }

    /// Rows of the rank that has the most.
    pub(super) fn most(&self) -> u64 {
        self.held.iter().copied().max().unwrap_or(0)
    }

    /// `sweep` is done in blocks of this size.
    pub(super) fn use_grain(&mut self, sweep: u64, grain: u64) {
        if std::mem::replace(&mut self.grain, grain) != grain && sweep > 0 {
            self.regrained.push(sweep);
        }
    }

    /// In blocks of another size ranks have other rates, and not all by the same factor: rates in both are not put
    /// together. Where reports are of both, they are left out, and ranks are to report again after the time that is
    /// returned (s).
    fn separate_grains(&mut self) -> Option<f64> {
        let (from, after) = (self.report_from, self.report_after);
        let (reported, later) = self.regrained.iter().partition::<Vec<u64>, _>(|&&sweep| sweep <= after);
        self.regrained = later;
        if reported.is_empty() || self.eager {
            return None;
        }
        self.of_run.controller.forget_rates();
        reported.iter().any(|&sweep| sweep > from).then(|| self.of_run.controller.discard_reports())
    }

    /// A size of blocks was chosen.
    pub(super) fn chose(&mut self, block: u64, reason: String) {
        self.of_run.controller.record(|| Event::Grain { block, reason });
    }

    /// Ranks for whose reports rank 0 waits before it begins `sweep`: none but in a synchronous loop, at an interaction. Rows can
    /// move `delay` sweeps later.
    pub(super) fn awaited(&self, sweep: u64, delay: u64) -> Vec<usize> {
        let is_interaction = sweep == self.report_after + 1 && sweep + delay < self.sweeps;
        if is_interaction && self.of_run.controller.is_synchronous() {
            self.of_run.controller.missing().collect()
        } else {
            Vec::new()
        }
    }

    /// Before rank 0 begins `sweep`: a directive, if it is time for one. Rows can move `delay` sweeps later.
    pub(super) fn decide(&mut self, sweep: u64, delay: u64) -> Result<Option<Directive>> {
        let before = sweep + delay;
        if before >= self.sweeps {
            return Ok(None);
        }
        let now = self.sweep_began.unwrap_or_default();
        let save = self.of_run.snapshot_due(before, now);
        let save_before = save.map(|_| before);
        if !self.of_run.controller.is_due() {
            let report_after = self.report_after;
            return Ok(save_before.map(|_| Directive { sweep, report_after, movement: None, save_before }));
        }
        // All that was reported is of the rows as they are now.
        self.of_run.controller.close_movement();
        let postpone = self.separate_grains().or_else(|| self.of_run.controller.postpone());
        let Instruction { moves, period } = match postpone {
            Some(period) => Instruction { moves: Vec::new(), period },
            None => self.of_run.controller.decide(Ahead::Passes((self.sweeps - before) as f64))?,
        };
        let (last, when) = std::mem::replace(&mut self.asked, (sweep, now));
        let seconds = now.saturating_sub(when).as_secs_f64() / (sweep - last).max(1) as f64;
        // At least one sweep, and as many as make up the period, or as there are.
        let count = match period / seconds {
            _ if self.eager => 1,
            count if count.is_finite() => count.round().clamp(1.0, self.sweeps as f64) as u64,
            _ => 1,
        };
        // Not before everybody can know.
        let from = if moves.is_empty() { before - 1 } else { before };
        let movement = if moves.is_empty() {
            None
        } else {
            let rounds = block_moves(&self.held, &moves)
                .map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
            // A rank may pass on more than it has.
            moves.iter().for_each(|m| self.held[m.to] += m.units);
            moves.iter().for_each(|m| self.held[m.from] -= m.units);
            Some(Movement { before, rounds })
        };
        self.report_from = self.report_after + 1;
        self.report_after = from + count - 1;
        Ok(Some(Directive { sweep, report_after: self.report_after, movement, save_before }))
    }

    /// An earlier job has done `before` sweeps; they are called `what`.
    pub(super) fn after(self, what: &'static str, before: u64) -> Self {
        Chain { earlier: (what, before), ..self }
    }

    /// Who is in the last sweep while rank 0 has done it.
    fn not_through(&self) -> String {
        let mut others = self.missing();
        others.retain(|&rank| rank > 0);
        if others.is_empty() { String::new() } else { format!("waits for {}", ranks_of(&others)) }
    }

    /// How far the run is, where rank 0 has done a part of this sweep: as far as the last of all. There may be fewer sweeps where it is checked
    /// whether there is another.
    pub(super) fn progress(&self, (sweep, part): (u64, f64), is_checked: bool) -> Progress {
        let (what, before) = self.earlier;
        let others = self.done.iter().zip(&self.totals).skip(1).filter(|(_, total)| total.is_none());
        let others = others.filter_map(|(done, _)| *done);
        let least = others.fold(sweep as f64 + part, f64::min);
        let (done, part) = (least.floor() as u64, least.fract());
        let all = before + self.sweeps;
        let (total, rest) = match is_checked {
            true => (None, format!("at most {all}")),
            false if sweep == self.sweeps => (Some(all), self.not_through()),
            false => (Some(all), String::new()),
        };
        Progress { before, part, ..self.of_run.progress((before + done, total), what, rest) }
    }

    /// How it went on `size` ranks, with the size of blocks at the end.
    pub(super) fn finish(mut self, units: u64, block: u64, size: usize) -> (Summary, Learned) {
        if self.is_stopped {
            let held = self.totals.iter().zip(&self.held);
            self.held = held.map(|(total, held)| total.map_or(*held, |total| total.held)).collect();
        }
        let ranks = (0..size).map(|rank| self.totals.get(rank).copied().flatten().unwrap_or_default());
        let ranks = ranks.collect();
        self.of_run.finish((units, self.sweeps), block, ranks, self.held)
    }
}

#[cfg(test)]
#[path = "coordinator_tests.rs"]
mod tests;

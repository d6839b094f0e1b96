//! Coordinator of a loop over a grid. It turns reports of the ranks into directives, which go from rank to rank along a chain.

use std::time::Duration;

use armature_planner::loops::{Ahead, block_moves};

use super::directive::{Directive, Movement};
use super::messages::ToCoordinator;
use crate::error::{Error, ErrorKind, Result};
use crate::loops::controller::Instruction;
use crate::loops::coordinator::{Learned, LoopCoordinator};
use crate::loops::summary::{RankReport, Summary};
use crate::observe::{Event, Progress};
use crate::rank::blocked_ranks::ranks_of;

pub(super) struct GridCoordinator {
    pub(super) of_run: LoopCoordinator,
    /// Number of rows of each rank that has any, as it will be after all movements of rows that rank 0 has ordered.
    held: Vec<u64>,
    /// Number of sweeps of the run; smaller than planned after an early end.
    sweeps: u64,
    planned: u64,
    /// Name of the sweeps for users, such as "panels", and number of sweeps that earlier starts of the job have done.
    earlier: (&'static str, u64),
    is_stopped: bool,
    is_ending: bool,
    /// For tests: true if rows move at random, as often as possible.
    eager: bool,
    sweep_began: Option<Duration>,
    /// Sweep before which rank 0 last asked the ranks for reports of measurements by a directive, and the time at which it did.
    requested: (u64, Duration),
    totals: Vec<Option<RankReport>>,
    /// Number of sweeps that each rank has done, as it last reported. In a simulator ranks do not report their progress.
    done: Vec<Option<f64>>,
    /// First sweep that the ranks' next reports of measurements cover. They are sent after sweep `report_after`.
    report_from: u64,
    report_after: u64,
    grain: u64,
    /// Sweeps in which the block size (columns of a strip) changed. A sweep is removed when all ranks have reported their measurements of it.
    regrained: Vec<u64>,
}

impl GridCoordinator {
    pub(super) fn new(of_run: LoopCoordinator, sweeps: u64, eager: bool, now: Duration) -> Self {
        let held = of_run.first.clone();
        GridCoordinator {
            of_run,
            totals: vec![None; held.len()],
            done: vec![None; held.len()],
            held,
            sweeps,
            planned: sweeps,
            earlier: ("sweeps", 0),
            is_stopped: false,
            is_ending: false,
            eager,
            sweep_began: None,
            requested: (0, now),
            report_from: 0,
            report_after: 0,
            grain: 0,
            regrained: Vec::new(),
        }
    }

    /// # Errors
    /// If the pieces that the ranks have written do not make a complete checkpoint.
    pub(super) fn on_message(&mut self, rank: usize, message: ToCoordinator, now: Duration) -> Result<()> {
        match message {
            ToCoordinator::Saved(pass, saved) => self.of_run.on_saved(rank, pass, saved, now)?,
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
            // Residuals are handled by the convergence checks, not by the coordinator.
            ToCoordinator::Residual(..) => {}
        }
        Ok(())
    }

    /// Ends the run early, before sweep `sweep`. A movement of rows that was ordered for a later time does not take place.
    pub(super) fn stop(&mut self, sweep: u64) {
        self.sweeps = sweep;
        self.is_stopped = true;
    }

    pub(super) fn kept(&self) -> String {
        let (what, before) = self.earlier;
        self.of_run.kept(before + self.sweeps, before + self.planned, what)
    }

    /// Returns the ranks that have not sent their final report, which they send after their last sweep.
    pub(super) fn missing(&self) -> Vec<usize> {
        (0..self.totals.len()).filter(|&rank| self.totals[rank].is_none()).collect()
    }

    pub(super) fn is_done(&self, rank: usize) -> bool {
        self.totals.get(rank).is_some_and(Option::is_some)
    }

    /// Records that rank 0 begins a sweep. Returns the duration of the sweep before it in seconds.
    pub(super) fn begin_sweep(&mut self, sweep: u64, now: Duration) -> Option<f64> {
        let before = self.sweep_began.replace(now).filter(|_| sweep > 0)?;
        Some(now.saturating_sub(before).as_secs_f64())
    }

    pub(super) fn most(&self) -> u64 {
        self.held.iter().copied().max().unwrap_or(0)
    }

    pub(super) fn use_grain(&mut self, sweep: u64, grain: u64) {
        if std::mem::replace(&mut self.grain, grain) != grain && sweep > 0 {
            self.regrained.push(sweep);
        }
    }

    /// Prevents reports of sweeps with different block sizes from being combined, because another block size changes the rates of the ranks, and not
    /// all by the same factor. If the reports cover sweeps with two block sizes, discards them, and returns the time in seconds after which ranks
    /// are to report again.
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

    pub(super) fn chose(&mut self, block: u64, reason: String) {
        self.of_run.controller.record(|| Event::Grain { block, reason });
    }

    /// Returns the directive that rank 0 issues before it begins `sweep`, if one is due. If it orders a movement, the rows move `delay` sweeps
    /// later.
    pub(super) fn decide(&mut self, sweep: u64, delay: u64) -> Result<Option<Directive>> {
        let before = sweep + delay;
        if before >= self.sweeps || self.is_ending {
            return Ok(None);
        }
        let now = self.sweep_began.unwrap_or_default();
        if self.of_run.must_stop(now) && !self.of_run.is_saving() {
            self.is_ending = true;
            self.of_run.last_snapshot(before);
            return Ok(Some(Directive::stop(sweep, before)));
        }
        let save = self.of_run.snapshot_due(before, now);
        let save_before = save.map(|_| before);
        if !self.of_run.controller.is_due() {
            let report_after = self.report_after;
            return Ok(save_before.map(|_| Directive { sweep, report_after, movement: None, save_before }));
        }
        // All ranks have reported measurements of the present distribution of rows, so the last movement of rows is complete, and its cost is
        // recorded.
        self.of_run.controller.close_movement();
        let postpone = self.separate_grains().or_else(|| self.of_run.controller.postpone());
        let Instruction { moves, period } = match postpone {
            Some(period) => Instruction { moves: Vec::new(), period },
            None => self.of_run.controller.decide(Ahead::Passes((self.sweeps - before) as f64))?,
        };
        let (last, when) = std::mem::replace(&mut self.requested, (sweep, now));
        let seconds = now.saturating_sub(when).as_secs_f64() / (sweep - last).max(1) as f64;
        // Number of sweeps until ranks report measurements next: as many as take about the time `period`, at least one and at most the sweeps of the
        // run.
        let count = match period / seconds {
            _ if self.eager => 1,
            count if count.is_finite() => count.round().clamp(1.0, self.sweeps as f64) as u64,
            _ => 1,
        };
        // The sweeps until the next reports of measurements are counted from a sweep that no rank can end before this directive of
        // rank 0 reaches it.
        let from = if moves.is_empty() { before - 1 } else { before };
        let movement = if moves.is_empty() {
            None
        } else {
            let rounds = block_moves(&self.held, &moves)
                .map_err(|error| Error::new(ErrorKind::Config, error.to_string()))?;
            // Rows are added to receivers before they are subtracted from senders: a rank may pass on more
            // rows than it held before the movement, so the unsigned count would underflow.
            moves.iter().for_each(|m| self.held[m.to] += m.units);
            moves.iter().for_each(|m| self.held[m.from] -= m.units);
            Some(Movement { before, rounds })
        };
        self.report_from = self.report_after + 1;
        self.report_after = from + count - 1;
        Ok(Some(Directive { sweep, report_after: self.report_after, movement, save_before }))
    }

    /// Sets the number of sweeps that an earlier job has done, and `what`, the word that users see for sweeps, such as "panels".
    pub(super) fn after(self, what: &'static str, before: u64) -> Self {
        GridCoordinator { earlier: (what, before), ..self }
    }

    fn not_through(&self) -> String {
        let mut others = self.missing();
        others.retain(|&rank| rank > 0);
        if others.is_empty() { String::new() } else { format!("waits for {}", ranks_of(&others)) }
    }

    /// Returns the progress of the run, which is that of the slowest rank. Rank 0 has done `sweep` sweeps and the fraction `part` of the next. If
    /// `is_checked` is true, the loop ends at convergence, so the number of sweeps is only a maximum.
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

    /// Returns the summary of the run, and the distribution of rows and the balancer with which the next run begins. `block` is the final block size
    /// (columns of a strip).
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

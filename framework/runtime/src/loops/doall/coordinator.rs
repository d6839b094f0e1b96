//! Coordinator of a DOALL loop, whose directives go to all ranks at once. It knows the remaining work of each rank, and decides when units
//! (rows or indices) move and when a pass ends.

use std::time::Duration;

use armature_planner::loops::{Ahead, LEAST_PERIOD, LoopBalancer, SOON};

use super::messages::{Command, Directive, Report, Transfer};
use crate::error::Result;
use crate::loops::controller::Instruction;
use crate::loops::coordinator::{Learned, LoopCoordinator};
use crate::loops::metrics::Sample;
use crate::loops::summary::{RankReport, Summary};
use crate::observe::Progress;

/// State of a rank as rank 0 knows it from the rank's reports of measurements.
#[derive(Clone, Debug, Default)]
struct WorkerState {
    /// Number of the last directive that the rank had carried out when it sent its last report.
    round: Option<u64>,
    /// Number of computations of units (rows or indices) that the rank has done in this pass.
    done: u64,
    /// Estimated number of computations of units (rows or indices) that the rank still has to do in this pass.
    undone: u64,
    held: u64,
    rate: Option<f64>,
    /// Time on rank 0's clock, in seconds, for which `done`, `undone` and `rate` hold: that of the rank's last report, or of the last extrapolation.
    at: f64,
    /// Seconds by which rank 0's clock is ahead of the rank's clock: the smallest difference so far between the receipt and the sending of a report.
    /// Larger differences include the time that a report waits until rank 0 has finished a block.
    ahead: Option<f64>,
    total: RankReport,
}

impl WorkerState {
    fn is_idle(&self) -> bool {
        self.undone == 0 && self.round.is_some()
    }

    /// Returns the seconds that the rank still has to compute after time `now`, if its rate (rows or indices per second) stays the same.
    fn left(&self, now: f64) -> f64 {
        match self.rate {
            _ if self.undone == 0 => 0.0,
            Some(rate) if rate > 0.0 => self.undone as f64 / rate - (now - self.at),
            _ => f64::INFINITY,
        }
    }

    /// Estimates the number of undone computations at time `now` from the rate that the rank has reported. At least one computation stays undone,
    /// because only the rank itself can report that it has finished.
    fn extrapolate(&mut self, now: f64) {
        if let Some(rate) = self.rate.filter(|_| self.undone > 0) {
            let done = ((now - self.at).max(0.0) * rate).round() as u64;
            (self.undone, self.at) = (self.undone.saturating_sub(done).max(1), now);
        }
    }
}

pub(super) struct DoAllCoordinator {
    pub(super) of_run: LoopCoordinator,
    workers: Vec<WorkerState>,
    units: u64,
    passes: u64,
    /// Number of times that each unit (row or index) is computed in a pass. It is greater than one if passes without barriers between them
    /// (`NOWAIT`) are combined to one pass.
    times: u64,
    pass: u64,
    round: u64,
    /// True if rank 0 waits until every rank, even one without units (rows or indices) to compute, has reported that it has carried out the
    /// last directive.
    all_answer: bool,
    /// True if a rank has run out of units (rows or indices) to compute since the last decision about movements of units.
    starved: bool,
    /// True if ranks that still compute were asked to report soon, because another rank has no units (rows or indices) left.
    report_soon: bool,
    /// True if ranks report their measurements after every block (call of user code).
    eager: bool,
}

impl DoAllCoordinator {
    /// Creates the coordinator of `passes` passes, in each of which each unit (row or index) is computed `times` times.
    pub(super) fn new(of_run: LoopCoordinator, (passes, times): (u64, u64), eager: bool) -> Self {
        let worker = |&held: &u64| WorkerState { undone: held * times, held, ..WorkerState::default() };
        DoAllCoordinator {
            workers: of_run.first.iter().map(worker).collect(),
            units: of_run.first.iter().sum(),
            of_run,
            passes,
            times,
            pass: 1,
            round: 0,
            all_answer: true,
            starved: false,
            report_soon: false,
            eager,
        }
    }

    pub(super) fn on_report(&mut self, rank: usize, report: &Report, now: Duration) {
        let Some(worker) = self.workers.get_mut(rank) else { return };
        if report.sample.seconds > 0.0 && report.sample.units > 0.0 {
            worker.rate = Some(report.sample.units / report.sample.seconds);
        }
        let delay = now.as_secs_f64() - report.at;
        let ahead = worker.ahead.map_or(delay, |ahead| ahead.min(delay));
        (worker.ahead, worker.at) = (Some(ahead), report.at + ahead);
        worker.round = Some(report.round);
        (worker.done, worker.undone, worker.held) = (report.done, report.sample.held, report.held);
        if let Some(total) = report.total {
            worker.total = total;
        }
        self.starved |= worker.is_idle();
        self.of_run.controller.on_report(rank, report.sample);
    }

    /// Returns the directive to all ranks that is due now, if there is one.
    ///
    /// # Errors
    /// If the balancer cannot use the measurements.
    pub(super) fn step(&mut self, now: Duration) -> Result<Option<Directive>> {
        if self.of_run.ended.is_some() {
            return Ok(None);
        }
        if self.is_pass_finished() {
            if self.of_run.must_stop(now) && self.is_stopping() {
                // While a checkpoint is being written, no directive is due. If the run was asked to stop, a last checkpoint follows. The run ends
                // when the last checkpoint is complete or cannot be written.
                if self.of_run.is_saving() {
                    return Ok(None);
                }
                if let Some(pass) = self.of_run.last_snapshot(self.pass) {
                    let nothing = Instruction { moves: Vec::new(), period: 0.0 };
                    return Ok(Some(Directive {
                        save: Some(pass),
                        ..self.directive(Command::Continue, nothing)
                    }));
                }
            }
            return self.next_pass(now).map(Some);
        }
        if self.workers.len() == 1 {
            return Ok(None);
        }
        if self.waited_for().next().is_none() {
            self.of_run.controller.close_movement();
            self.extrapolate_all(now);
            let undone = self.undone();
            let ahead = match undone > u128::from(self.units) {
                // The balancer assumes equal numbers of computations per unit (row or index). It therefore gets the remaining work of all
                // ranks as a number of passes over all units, whichever units the remaining computations belong to.
                true => Ahead::Passes(undone as f64 / self.units as f64),
                false => Ahead::RestOfPass,
            };
            let instruction = self.decide(ahead)?;
            return Ok(Some(self.directive(Command::Continue, instruction)));
        }
        let now = now.as_secs_f64();
        if self.starved && !self.report_soon && self.waited_for().any(|(_, worker)| worker.left(now) > SOON) {
            self.report_soon = true;
            let (round, period) = (self.round, LEAST_PERIOD);
            return Ok(Some(Directive {
                round,
                what: Command::ReportSoon,
                moves: Vec::new(),
                period,
                save: None,
            }));
        }
        Ok(None)
    }

    /// Extrapolates the progress of all ranks to time `now`, because the ranks report at different times: up to the duration of a
    /// block of the slowest rank apart.
    fn extrapolate_all(&mut self, now: Duration) {
        self.workers.iter_mut().for_each(|worker| worker.extrapolate(now.as_secs_f64()));
    }

    fn undone(&self) -> u128 {
        self.workers.iter().map(|worker| u128::from(worker.undone)).sum()
    }

    /// Decides how the remaining computations are distributed over the ranks. The balancer assumes that each unit (row or index) is computed
    /// equally often. If more computations than units remain, the counts are therefore scaled down to the number of units for the balancer, and
    /// its movements scaled up again. The predicted cost of a movement then depends on the number of units that move.
    fn decide(&mut self, ahead: Ahead) -> Result<Instruction> {
        let (undone, units) = (self.undone(), u128::from(self.units));
        for (rank, worker) in self.workers.iter().enumerate() {
            let held = match undone > units {
                true => (u128::from(worker.undone) * units + undone / 2) / undone,
                false => worker.undone.into(),
            };
            // The cast is lossless: `held` is at most the number of units (rows or indices) of the loop, which fits into `u64`.
            self.of_run.controller.on_report(rank, Sample { held: held as u64, ..Sample::default() });
        }
        // Each rank keeps at least one unit (row or index), because rank 0 has no measurements of a rank without units and would not notice
        // that it becomes faster. Only at the end of a pass may a slow rank lose all its units.
        self.of_run.controller.set_least(u64::from(ahead != Ahead::RestOfPass));
        let mut instruction = self.of_run.controller.decide(ahead)?;
        if undone > units {
            for transfer in &mut instruction.moves {
                transfer.units = (u128::from(transfer.units) * undone / units) as u64;
            }
        }
        Ok(instruction)
    }

    /// Returns the ranks without whose reports of measurements rank 0 cannot decide about movements of units (rows or indices).
    fn waited_for(&self) -> impl Iterator<Item = (usize, &WorkerState)> {
        self.workers
            .iter()
            .enumerate()
            .filter(|(_, worker)| worker.round != Some(self.round) && (self.all_answer || !worker.is_idle()))
    }

    fn is_pass_finished(&self) -> bool {
        let done: u64 = self.workers.iter().map(|worker| worker.done).sum();
        done == self.units * self.times && (!self.all_answer || self.waited_for().next().is_none())
    }

    /// Moves units (rows or indices) at the start of a run, before the first report, based on what an earlier run has learned about the ranks.
    ///
    /// # Errors
    /// The errors of [`step`](DoAllCoordinator::step).
    pub(super) fn open(&mut self, learned: LoopBalancer) -> Result<Option<Directive>> {
        self.of_run.controller.resume(learned);
        if self.workers.len() == 1 {
            return Ok(None);
        }
        let instruction = self.distribute()?;
        Ok((!instruction.moves.is_empty()).then(|| self.directive(Command::Continue, instruction)))
    }

    /// Distributes the units (rows or indices) at the beginning of a pass, in which all of them have yet to be computed.
    fn distribute(&mut self) -> Result<Instruction> {
        for worker in &mut self.workers {
            (worker.done, worker.undone) = (0, worker.held * self.times);
        }
        self.decide(Ahead::Passes((self.passes - self.pass + 1) as f64 * self.times as f64))
    }

    fn is_stopping(&self) -> bool {
        self.of_run.stop_requested && self.pass < self.passes
    }

    pub(super) fn stopped_after(&self) -> Option<u64> {
        (self.of_run.ended.is_some() && self.is_stopping()).then_some(self.pass)
    }

    fn next_pass(&mut self, now: Duration) -> Result<Directive> {
        if self.pass == self.passes || self.is_stopping() {
            self.of_run.ended = Some(now);
            self.of_run.controller.close_movement();
            return Ok(self.directive(Command::End, Instruction { moves: Vec::new(), period: 0.0 }));
        }
        // A checkpoint can be written now: every unit (row or index) has been computed in this pass, and no unit is in transit.
        let save = self.of_run.snapshot_due(self.pass, now);
        self.pass += 1;
        self.of_run.controller.close_movement();
        let instruction = if self.workers.len() == 1 {
            self.workers[0].done = 0;
            Instruction { moves: Vec::new(), period: f64::MAX }
        } else {
            self.distribute()?
        };
        Ok(Directive { save, ..self.directive(Command::BeginPass, instruction) })
    }

    fn directive(&mut self, what: Command, instruction: Instruction) -> Directive {
        let of = |rank: usize| self.workers.get(rank).map_or(0, |worker| worker.undone);
        let moves: Vec<Transfer> = instruction
            .moves
            .iter()
            .map(|m| Transfer { from: m.from, to: m.to, units: m.units, of: of(m.from) })
            .collect();
        self.round += 1;
        self.all_answer = what == Command::BeginPass || !moves.is_empty();
        (self.starved, self.report_soon) = (false, false);
        if what == Command::BeginPass {
            // A rank counts as idle in the new pass only after a report in that pass.
            self.workers.iter_mut().for_each(|worker| worker.round = None);
        }
        let period = if self.eager { 0.0 } else { instruction.period.max(LEAST_PERIOD) };
        Directive { round: self.round, what, moves, period, save: None }
    }

    /// Describes the ranks whose reports the coordinator waits for, with the numbers of units (rows or indices) that they still have to
    /// compute.
    pub(super) fn waits_for(&self) -> String {
        let list: Vec<String> = self
            .waited_for()
            .map(|(rank, worker)| format!("rank {rank} ({} units left)", worker.undone))
            .collect();
        let pass = match self.times {
            1 => format!("pass {} of {}", self.pass, self.passes),
            times => format!("passes 1 to {times}"),
        };
        match list.is_empty() {
            false => format!("for the reports of {}, in {pass}", list.join(", ")),
            // Reached only through a fault in the protocol: no report of a rank is missing, and yet the pass has not ended.
            true if !self.is_pass_finished() => format!("for units that no rank reports, in {pass}"),
            true => format!("for a checkpoint to be written, after {pass}"),
        }
    }

    /// Returns the progress of the run. `before` is the number of passes of earlier runs. In a loop until convergence, `at_most` is the maximum
    /// number of passes of all runs together.
    pub(super) fn progress(&self, before: u64, at_most: Option<u64>) -> Progress {
        let each = |passes: u64| passes.saturating_mul(self.times).saturating_mul(self.units);
        let done: u64 = self.workers.iter().map(|worker| worker.done).sum();
        let pass = before + self.pass;
        let (total, rest) = match at_most {
            Some(at_most) => (None, format!("pass {pass} of at most {at_most}")),
            None if self.passes > 1 => (Some(each(self.passes)), format!("pass {pass} of {}", self.passes)),
            None => (Some(each(self.passes)), String::new()),
        };
        let done = each(pass - 1).saturating_add(done);
        Progress { before: each(before), ..self.of_run.progress((done, total), "units", rest) }
    }

    fn held(&self) -> Vec<u64> {
        self.workers.iter().map(|worker| worker.held).collect()
    }

    /// Returns the work statistics of each rank. The time between a rank's last report and the end of the run counts as waiting.
    fn totals(&self) -> Vec<RankReport> {
        let end = self.of_run.ended.unwrap_or_default().as_secs_f64();
        let total = |worker: &WorkerState| {
            let last = Duration::from_secs_f64((end - worker.at).max(0.0));
            RankReport { waiting: worker.total.waiting + last, held: worker.held, ..worker.total }
        };
        self.workers.iter().map(total).collect()
    }

    /// Returns the summary of the run, and the distribution of units (rows or indices) and the balancer with which the next run begins. `block` is
    /// the final block size (units per call of user code).
    pub(super) fn finish(self, passes: u64, block: u64) -> (Summary, Learned) {
        let (ranks, held) = (self.totals(), self.held());
        self.of_run.finish((self.units, passes), block, ranks, held)
    }
}

#[cfg(test)]
#[path = "coordinator_tests.rs"]
mod tests;

//! A run of a DOALL loop on this rank, from start to end.

use armature_planner::loops::Reach;

use super::coordinator::DoAllCoordinator;
use super::rank_loop::RankLoop;
use super::running::{Run, Running};
use super::user_code::{Body, LoopCode};
use crate::comm::endpoint::Endpoint;
use crate::error::Result;
use crate::loops::NAME;
use crate::loops::controller::LoopController;
use crate::loops::coordinator::{Learned, LoopCoordinator};
use crate::loops::metrics::BlockTimer;
use crate::loops::summary::Summary;
use crate::loops::units::Units;
use crate::rank::driver::RankDriver;
use crate::rank::executor::Executor;
use crate::session::{Config, Driver};

impl<U: Units> RankLoop<U> {
    /// # Errors
    /// If the options of the loop cannot be used.
    pub(in crate::loops) fn begin(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        passes: u64,
    ) -> Result<Run> {
        let (rank, ranks, clock) = (endpoint.rank(), endpoint.size(), endpoint.clock());
        let eager = self.settings.forced.is_some();
        // Passes without barriers between them (`NOWAIT`) become one pass in which each unit (row or index) is computed `passes` times, if the
        // total number of computations fits into the counter. Loops with checkpoints keep their barriers, because a checkpoint needs a moment
        // at which all units have been computed equally often.
        let is_one = self.nowait && self.checkpoints.is_none() && self.units.checked_mul(passes).is_some();
        let (rounds, times) = if is_one { (1, passes) } else { (passes, 1) };
        let to_make = self.wants(rank, ranks)?;
        self.worker.begin(rank, times, eager);
        let mut run = Run::new(clock, passes, to_make);
        if rank == 0 {
            let (learned, held) = match self.learned.take() {
                Some(Learned { held, balancer }) => (Some(balancer), held),
                None => (None, self.first(ranks)?),
            };
            let controller =
                LoopController::new(&self.name, &self.settings, config, endpoint, Reach::Anywhere, &held)?;
            let snapshots = self.checkpoints.as_mut().and_then(|checkpoints| checkpoints.snapshots.take());
            let of_run = LoopCoordinator::new(&self.name, controller, snapshots, held, clock.now());
            run = run.with_coordinator(DoAllCoordinator::new(of_run, (rounds, times), eager), learned);
        }
        Ok(run)
    }

    /// Runs `passes` passes, at least one, with `body` as user code. `base` is the number of the first unit (row or index), for errors. Returns
    /// the summary on rank 0.
    ///
    /// # Errors
    /// If the options cannot be used; the first error of user code, of the transport or of the protocol; a rank that has died or is silent for too
    /// long.
    pub(in crate::loops) fn run(
        &mut self,
        endpoint: &mut Endpoint,
        config: &Config,
        passes: u64,
        (body, base): (&mut dyn Body<U>, u64),
    ) -> Result<Option<Summary>> {
        let mut run = self.begin(endpoint, config, passes)?;
        let (rank, clock, waker) = (endpoint.rank(), endpoint.clock(), endpoint.transport().waker());
        let code = LoopCode { body, timer: BlockTimer::new(clock), base };
        // A simulated rank has no compute thread, so user code runs on the communicating thread.
        let choice = if endpoint.capabilities().threads { config.driver } else { Driver::Inline };
        std::thread::scope(|scope| {
            let executor = Executor::at_first_job(Some(scope), rank, choice, waker, clock, code, self.usual);
            let driver = RankDriver::new(endpoint, executor, config, NAME);
            let result = driver.run(endpoint, &mut Running::new(self, &mut run));
            // A failure is reported to the other ranks before the thread scope ends. Its end waits for the compute thread, which may be in user code
            // for a long time.
            result.map_err(|error| self.placed(error)).inspect_err(|error| endpoint.report(error)).map(drop)
        })?;
        let summary = self.end(run);
        endpoint.check_run_stopped().map(|()| summary)
    }

    pub(in crate::loops) fn end(&mut self, run: Run) -> Option<Summary> {
        self.usual = run.metrics.mean_block();
        let coordinator = run.coordinator.filter(|coordinator| coordinator.of_run.ended.is_some())?;
        let (summary, learned) = coordinator.finish(run.passes, self.block_size.usual());
        self.learned = Some(learned);
        Some(summary)
    }
}

//! Convergence checks of a rank between two sweeps.

use super::{Checks, GridParticipant, Outgoing, Phase, ToCoordinator};
use crate::error::Result;
use crate::loops::grid::messages::Coordination;
use crate::loops::until::CheckResult;

impl GridParticipant<'_, '_> {
    pub(super) fn check(&mut self, sweep: u64, out: &mut Outgoing<'_>) -> Result<()> {
        self.phase = self.before_sweep(sweep);
        self.send_residual(sweep, out)
    }

    /// Sends the rank's residual to rank 0 if a convergence check is due before sweep `sweep`. Called after the last sweep as well, when the rank
    /// has received its halo rows.
    pub(super) fn send_residual(&mut self, sweep: u64, out: &mut Outgoing<'_>) -> Result<()> {
        match &self.checks {
            Some(checks) if checks.is_due(sweep) => {
                let residual = ToCoordinator::Residual(sweep, checks.take());
                self.phase = Phase::Checking(sweep);
                self.report(residual, out)
            }
            _ => Ok(()),
        }
    }

    /// Returns the next phase: rank 0 decides about movements of rows before it computes a sweep; other ranks compute at once.
    fn before_sweep(&self, sweep: u64) -> Phase {
        if self.coordinator.is_some() { Phase::Deciding(sweep) } else { Phase::Sweeping }
    }

    /// Adds, on rank 0, the residual of rank `from`. When it is the last one missing, rank 0 sends its verdict about convergence to
    /// all ranks with rows.
    pub(super) fn collect(
        &mut self,
        from: usize,
        sweep: u64,
        residual: f64,
        out: &mut Outgoing<'_>,
    ) -> Result<()> {
        let Some(checks) = &mut self.checks else { return Ok(()) };
        let Some(check_result) = checks.collect(from, sweep, residual)? else { return Ok(()) };
        (1..self.position.chain).try_for_each(|to| out.send(to, Coordination::CheckResult(check_result)))?;
        self.on_check_result(check_result);
        Ok(())
    }

    pub(super) fn on_check_result(&mut self, check_result: CheckResult) {
        let Phase::Checking(sweep) = self.phase else { return };
        self.times.end_wait();
        if let Some(checks) = &mut self.checks {
            checks.on_check_result(check_result);
        }
        if self.checks.as_ref().is_some_and(|checks| checks.is_end(sweep)) {
            self.phase = Phase::Ending(self.clock.now());
            return;
        }
        if !check_result.is_converged {
            self.phase = self.before_sweep(sweep);
            return;
        }
        self.worker.stop();
        if let Some(coordinator) = &mut self.coordinator {
            coordinator.stop(sweep);
        }
        self.phase = Phase::Sweeping;
    }

    pub(super) fn check_state(&self, sweep: u64) -> String {
        match self.checks.as_ref().map(Checks::missing) {
            Some(missing) if !missing.is_empty() => {
                format!("waits for the residuals of ranks {missing:?} before sweep {sweep}")
            }
            _ => format!("waits for rank 0 to decide whether there is a sweep {sweep}"),
        }
    }
}

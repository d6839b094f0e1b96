//! Reports of a rank with rows to rank 0 about its progress and its state.

use std::time::Duration;

use super::{GridParticipant, Outgoing, Phase, PushOut, ToCoordinator};
use crate::comm::HEARTBEAT_PERIOD;
use crate::error::Result;

impl GridParticipant<'_, '_> {
    /// Reports the progress of this rank to rank 0 once per heartbeat period. Rank 0 may be ahead of other ranks and shows the progress of the
    /// slowest one.
    pub(super) fn report_progress(&mut self, now: Duration, out: &mut Outgoing<'_>) -> Result<()> {
        if now < self.next_progress
            || self.coordinator.is_some()
            || self.has_reported
            || self.leave_by_themselves
        {
            return Ok(());
        }
        self.next_progress = now + HEARTBEAT_PERIOD;
        self.report(ToCoordinator::Done(self.worker.sweep() as f64 + self.worker.part_done()), out)
    }

    /// Describes for the user what the rank computes, or for which rank it waits.
    pub(super) fn state(&self) -> String {
        let sweep = self.worker.sweep();
        match (&self.phase, &self.push_out, self.times.waits()) {
            (Phase::Probing(probe), ..) => format!("waits for rank {} to answer a probe", probe.to),
            (Phase::Checking(sweep), ..) => self.check_state(*sweep),
            (Phase::Ending(_), ..) => match &self.coordinator {
                Some(coordinator) if self.has_reported => {
                    format!("waits for ranks {:?} to finish the last sweep", coordinator.missing())
                }
                _ => "ends the loop".to_string(),
            },
            (_, Some(PushOut { to, .. }), _) => format!("waits for rank {to} to request rows"),
            (_, _, true) => format!("waits {}", self.worker.waiting_for()),
            _ => format!("computes in sweep {sweep}, {} rows", self.worker.held()),
        }
    }
}

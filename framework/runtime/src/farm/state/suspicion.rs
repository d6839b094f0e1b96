//! Which workers may try tasks over which ranks have died.

use super::Suspicion;
use super::worker_table::{WorkerState, WorkerTable};

/// Whether `worker` may try tasks of this suspicion now, or could if it had nothing else (`idle`).
pub(super) fn may_try(workers: &WorkerTable, worker: usize, suspicion: Suspicion, idle: bool) -> bool {
    let free = idle || workers.is_leader(worker) || workers.held(worker) == 0;
    worker != 0 && free && is_worth_a_rank(workers, suspicion)
}

/// Whether anybody may try them, now or later.
pub(super) fn is_worth_a_rank(workers: &WorkerTable, suspicion: Suspicion) -> bool {
    suspicion.is_worth_a_rank(workers.others())
}

impl WorkerTable {
    /// Workers beside rank 0 that there are, or that may still come.
    fn others(&self) -> usize {
        let workers = |rank| match self.state_of(rank) {
            WorkerState::Active => self.span(rank),
            WorkerState::Parked | WorkerState::Expected | WorkerState::Suspected => 1,
            WorkerState::Delegated | WorkerState::TimedOut | WorkerState::Dead | WorkerState::Left => 0,
        };
        (1..self.size()).map(workers).sum()
    }
}

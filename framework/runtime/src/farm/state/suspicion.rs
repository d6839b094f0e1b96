//! Workers that may run tasks in which ranks may have died.

use super::Suspicion;
use super::worker_table::{WorkerState, WorkerTable};

/// Returns true if `worker` may run tasks with this suspicion now, or, with `idle`, if it may run them once it holds no chunk.
pub(super) fn may_try(workers: &WorkerTable, worker: usize, suspicion: Suspicion, idle: bool) -> bool {
    let free = idle || workers.is_leader(worker) || workers.held(worker) == 0;
    worker != 0 && free && is_worth_a_rank(workers, suspicion)
}

/// Returns true if any worker may run tasks with this suspicion, now or later.
pub(super) fn is_worth_a_rank(workers: &WorkerTable, suspicion: Suspicion) -> bool {
    suspicion.is_worth_a_rank(workers.others())
}

impl WorkerTable {
    /// Returns the number of workers besides rank 0 that are present or may still join.
    fn others(&self) -> usize {
        let workers = |rank| match self.state_of(rank) {
            WorkerState::Active => self.span(rank),
            WorkerState::Parked | WorkerState::Expected | WorkerState::Suspected => 1,
            WorkerState::Delegated | WorkerState::TimedOut | WorkerState::Dead | WorkerState::Left => 0,
        };
        (1..self.size()).map(workers).sum()
    }
}

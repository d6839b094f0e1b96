//! What is suspected of tasks over which ranks have died, and who may try them.

use serde::{Deserialize, Serialize};

use super::worker_table::{WorkerState, WorkerTable};

/// Whether ranks have died over tasks, and how these are to be handed out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Suspicion {
    /// Ranks that have died in the task for certain; its attempts count them, too.
    pub(crate) certain: u32,
    /// Ranks that have died in it or in another one.
    pub(crate) shared: u32,
    /// The number of the last of these deaths.
    pub(crate) death: u32,
    /// How many tasks may go into a chunk; 0 if nobody has died over them.
    pub(crate) most: u32,
}

impl Suspicion {
    pub(super) fn without_shared(self) -> Self {
        let most = if self.certain > 0 { self.most } else { 0 };
        Suspicion { shared: 0, death: 0, most, ..self }
    }

    /// Whether a rank has died over the tasks.
    pub(crate) fn is_there(self) -> bool {
        self.most > 0
    }
}

/// Whether `worker` may try tasks of this suspicion now, or could if it had nothing else (`idle`). The last worker is
/// not risked for a task that two have died of.
pub(super) fn may_try(workers: &WorkerTable, worker: usize, suspicion: Suspicion, idle: bool) -> bool {
    let free = idle || workers.is_leader(worker) || workers.held(worker) == 0;
    worker != 0 && free && is_worth_a_rank(workers, suspicion)
}

/// Whether anybody may try them, now or later.
pub(super) fn is_worth_a_rank(workers: &WorkerTable, suspicion: Suspicion) -> bool {
    workers.others() >= if suspicion.certain >= 2 { 2 } else { 1 }
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

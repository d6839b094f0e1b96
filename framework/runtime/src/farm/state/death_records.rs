//! Deaths and silences of ranks, with the tasks that they held.

use std::ops::Range;

use super::super::failure_detector::Loss;
use super::Suspicion;
use crate::error::ErrorKind;
use crate::failed_task::FailedTask;

/// Death of a rank, with the tasks that may have caused it.
#[derive(Debug)]
struct Death {
    tasks: Range<u64>,
    rank: usize,
    why: String,
}

/// Deaths and silences of ranks in one set of tasks.
#[derive(Debug, Default)]
pub(crate) struct DeathRecords {
    deaths: Vec<Death>,
    /// Tasks that ranks held when they fell silent.
    suspect_ranges: Vec<Range<u64>>,
}

impl DeathRecords {
    /// Removes all records before another set of tasks.
    pub(super) fn clear(&mut self) {
        self.deaths.clear();
        self.suspect_ranges.clear();
    }

    /// Records the loss of a rank that held `tasks`. If the tasks are `blamed`, the rank may have died of one of them.
    pub(super) fn record(&mut self, loss: &Loss, tasks: Range<u64>, blamed: bool) {
        if !loss.certain {
            self.suspect_ranges.push(tasks.clone());
        }
        if blamed {
            self.deaths.push(Death { tasks, rank: loss.rank, why: loss.why.clone() });
        }
    }

    /// Returns true if a rank fell silent while it held some task in `tasks`.
    pub(super) fn are_suspect(&self, tasks: Range<u64>) -> bool {
        self.suspect_ranges.iter().any(|other| tasks.start < other.end && other.start < tasks.end)
    }

    /// Returns the failure of a task in which ranks may have died and that no rank may run any more. `exhausted` is true if its attempts
    /// are used up.
    pub(super) fn failure(
        &self,
        task: u64,
        attempt: u32,
        suspicion: Suspicion,
        exhausted: bool,
    ) -> FailedTask {
        let last = self.deaths.iter().rev().find(|death| death.tasks.contains(&task));
        let place = match suspicion.certain > 0 {
            true => "it",
            false => "it, or in another task of the same chunk",
        };
        let mut message = match last {
            Some(Death { rank, why, .. }) => format!("the process of rank {rank} died in {place} ({why})"),
            // The journal does not record the rank.
            None => format!("a process died in {place} (in an earlier run of the job)"),
        };
        if !exhausted {
            message += ", and no rank is left to retry it";
        }
        // The task may succeed in another run, unless it has used all its attempts and certainly caused the deaths.
        let is_its_own = exhausted && suspicion.is_its_own();
        let kind = if is_its_own { ErrorKind::User } else { ErrorKind::Timeout };
        let (rank, tries) = (last.map_or(0, |death| death.rank), attempt + suspicion.shared.min(1));
        FailedTask { task, name: None, rank, tries, kind, message }
    }
}

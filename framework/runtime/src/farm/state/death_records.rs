//! Which ranks have died over which tasks, or fallen silent, as the master remembers it.

use std::ops::Range;

use super::super::failure_detector::Loss;
use super::super::outcome::FailedTask;
use super::Suspicion;

/// A death of which these tasks are suspected.
#[derive(Debug)]
struct Death {
    tasks: Range<u64>,
    rank: usize,
    why: String,
}

/// See the module's page.
#[derive(Debug, Default)]
pub(crate) struct DeathRecords {
    deaths: Vec<Death>,
    /// Tasks over one of which a rank has fallen silent.
    suspect_ranges: Vec<Range<u64>>,
}

impl DeathRecords {
    /// Another set of tasks begins.
    pub(super) fn clear(&mut self) {
        self.deaths.clear();
        self.suspect_ranges.clear();
    }

    /// A rank is lost that had these tasks; it may have died of one of them if they are `blamed`.
    pub(super) fn record(&mut self, loss: &Loss, tasks: Range<u64>, blamed: bool) {
        if !loss.certain {
            self.suspect_ranges.push(tasks.clone());
        }
        if blamed {
            self.deaths.push(Death { tasks, rank: loss.rank, why: loss.why.clone() });
        }
    }

    /// Whether a rank has fallen silent over some of these tasks.
    pub(super) fn are_suspect(&self, tasks: Range<u64>) -> bool {
        self.suspect_ranges.iter().any(|other| tasks.start < other.end && other.start < tasks.end)
    }

    /// A task that ranks have died over and nobody may try any more, as a failed one. `exhausted`: it has had all its
    /// attempts.
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
            // The journal does not tell which.
            None => format!("a process died in {place} (in an earlier run of the job)"),
        };
        if !exhausted {
            message += ", and no rank is left to risk with it";
        }
        let (rank, attempts) = (last.map_or(0, |death| death.rank), attempt + suspicion.shared.min(1));
        FailedTask { task, rank, attempts, panicked: false, message }
    }
}

//! Deaths and silences of ranks, with the tasks that they held.

use std::ops::Range;

use super::super::failure_detector::Loss;
use crate::failed_task::FailedTask;
use crate::tasks::Attempts;

#[derive(Debug)]
struct Death {
    tasks: Range<u64>,
    rank: usize,
    why: String,
}

#[derive(Debug, Default)]
pub(crate) struct DeathRecords {
    deaths: Vec<Death>,
    suspect_ranges: Vec<Range<u64>>,
}

impl DeathRecords {
    pub(super) fn clear(&mut self) {
        self.deaths.clear();
        self.suspect_ranges.clear();
    }

    /// Records that a rank was lost while it held `tasks`; `blamed` is true if it may have died of one of them.
    pub(super) fn record(&mut self, loss: &Loss, tasks: Range<u64>, blamed: bool) {
        if !loss.certain {
            self.suspect_ranges.push(tasks.clone());
        }
        if blamed {
            self.deaths.push(Death { tasks, rank: loss.rank, why: loss.why.clone() });
        }
    }

    pub(super) fn are_suspect(&self, tasks: Range<u64>) -> bool {
        self.suspect_ranges.iter().any(|other| tasks.start < other.end && other.start < tasks.end)
    }

    pub(crate) fn failure(&self, task: u64, attempts: Attempts, tries: u32) -> FailedTask {
        let last = self.deaths.iter().rev().find(|death| death.tasks.contains(&task));
        let last = last.map(|death| (death.rank, format!(" ({})", death.why)));
        let last = last.as_ref().map(|(rank, why)| (*rank, why.as_str()));
        attempts.failure((task, None), tries, last, ("died", "another task of the same chunk"))
    }
}

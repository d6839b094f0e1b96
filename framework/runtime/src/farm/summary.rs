//! Summary of a run of a farm.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observe::number_format::{count, per_second, percent};
use crate::observe::summary::{RankWork, RunSummary, cell, write_headline, write_table};

/// Statistics of one rank's work for a farm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankReport {
    /// Number of tasks that the rank ran, failed ones included.
    pub tasks: u64,
    /// Number of chunks that the rank ran.
    pub chunks: u64,
    /// Time that the rank spent in tasks.
    pub busy: Duration,
    /// Time that the creation of the user's worker on this rank took.
    pub warm_up: Duration,
}

impl RankReport {
    /// Adds a part of a chunk: `tasks` tasks that took `seconds`. `is_last` is true if the part is the last one of the chunk.
    pub(super) fn add(&mut self, tasks: u32, seconds: f64, is_last: bool) {
        self.tasks += u64::from(tasks);
        self.chunks += u64::from(is_last);
        self.busy += Duration::from_secs_f64(seconds.max(0.0));
    }
}

/// Summary of a run of a farm, on rank 0. Its `Display` is a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Name of the farm.
    pub name: String,
    /// Number of tasks that have succeeded, plus those that failed at every attempt.
    pub tasks: u64,
    /// Number of tasks whose results were in the journal of an earlier run.
    pub known: u64,
    /// Number of tasks that failed at every attempt.
    pub failed: u64,
    /// Number of times that a task was run again, after an error of the task or the death of a rank in it.
    pub retried: u64,
    /// Number of tasks that were sent to another rank because the rank that held them was lost.
    pub again: u64,
    /// Ranks that died or hung.
    pub lost: Vec<usize>,
    /// Number of chunks that were sent to ranks.
    pub chunks: u64,
    /// Number of chunks sent as [second copies](super::Farm::second_copies).
    pub copies: u64,
    /// Number of tasks whose result came from a second copy.
    pub ended_in_copies: u64,
    /// Chunking of the farm, as set by [`Farm::chunking`](super::Farm::chunking).
    pub chunking: String,
    /// Number of iterations (sets of tasks that ran one after the other); 1 for a stream of tasks.
    pub iterations: usize,
    /// Time from the start of the run to the last result.
    pub elapsed: Duration,
    /// By rank: statistics of its work; for a lost rank, according to the results that have arrived.
    pub ranks: Vec<RankReport>,
    /// Number of ranks that ran tasks at the start, including rank 0 if it did; the other ranks were parked (got no tasks).
    pub started_with: usize,
    /// Number of ranks that ran tasks at the end.
    pub ended_with: usize,
    /// Reason for the last change of the number of ranks that run tasks, in one sentence; `None` if the number never changed.
    pub change: Option<String>,
    /// Ranks that were sub-masters at the end.
    pub sub_masters: Vec<usize>,
}

impl Summary {
    /// Returns the number of ranks that ran any task during the run.
    pub fn workers(&self) -> usize {
        self.ranks.iter().filter(|r| r.tasks > 0).count()
    }
}

impl RunSummary for Summary {
    fn name(&self) -> &str {
        &self.name
    }

    fn work(&self) -> (u64, &'static str) {
        (self.tasks, "task")
    }

    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn ranks(&self) -> Vec<RankWork> {
        let work = |rank: &RankReport| RankWork {
            done: rank.tasks as f64,
            busy: rank.busy,
            off_core: Duration::ZERO,
        };
        self.ranks.iter().map(work).collect()
    }

    fn last_change(&self) -> Option<&str> {
        self.change.as_deref()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut more = format!("{}, chunking {}", count(self.chunks, "chunk"), self.chunking);
        if self.iterations != 1 {
            more += &format!("; {}", count(self.iterations as u64, "iteration"));
        }
        write_headline(f, "farm", self, &more)?;
        if self.known > 0 {
            write!(f, "\n{} restored from the journal", self.known)?;
        }
        if self.failed + self.retried > 0 {
            write!(f, "\n{} failed, {} retried", count(self.failed, "task"), self.retried)?;
        }
        if !self.lost.is_empty() {
            write!(f, "\nlost ranks {:?}; {} requeued", self.lost, count(self.again, "task"))?;
        }
        if self.copies > 0 {
            let (copies, first) = (count(self.copies, "chunk"), count(self.ended_in_copies, "task"));
            write!(f, "\n{copies} sent a second time to idle ranks, where {first} ended first")?;
        }
        let set_up = self.ranks.iter().map(|rank| rank.warm_up).max().unwrap_or_default();
        if set_up.as_millis() > 0 {
            write!(f, "\nworkers were set up in {} at most, which counts as idle time", cell(set_up))?;
        }
        if !self.sub_masters.is_empty() {
            write!(f, "\n{}: {:?}", count(self.sub_masters.len() as u64, "sub-master"), self.sub_masters)?;
        }
        match &self.change {
            Some(why) => write!(f, "\nfrom {} to {} workers: {why}", self.started_with, self.ended_with)?,
            None if self.started_with != self.ranks.len() => {
                write!(f, "\n{}", count(self.ended_with as u64, "worker"))?
            }
            None => {}
        }
        let row = |(rank, report): (usize, &RankReport)| {
            let share = per_second(report.busy.as_secs_f64(), self.elapsed);
            let (idle, share) = (cell(self.elapsed.saturating_sub(report.busy)), percent(share, 0));
            vec![
                rank.to_string(),
                report.tasks.to_string(),
                cell(report.busy),
                idle,
                share,
                report.chunks.to_string(),
            ]
        };
        let rows: Vec<_> = self.ranks.iter().enumerate().map(row).collect();
        write_table(f, &["rank", "tasks", "busy", "idle", "share", "chunks"], &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_counts_only_working_ranks() {
        let rank =
            |tasks, seconds| RankReport { tasks, busy: Duration::from_secs(seconds), ..Default::default() };
        let mut summary = Summary {
            name: "square".into(),
            tasks: 12,
            known: 0,
            failed: 0,
            retried: 0,
            again: 0,
            lost: vec![],
            chunks: 3,
            copies: 0,
            ended_in_copies: 0,
            chunking: "ss".into(),
            iterations: 1,
            elapsed: Duration::from_secs(10),
            ranks: vec![rank(0, 0), rank(6, 9), rank(6, 7)],
            started_with: 3,
            ended_with: 3,
            change: None,
            sub_masters: vec![],
        };
        assert_eq!((summary.workers(), summary.efficiency(), summary.throughput()), (2, 0.8, 1.2));
        assert!(
            summary
                .to_string()
                .starts_with("farm square: 12 tasks in 10.000 s, 1.20 tasks/s, efficiency 80.0 %; 3 chunks")
        );
        (summary.lost, summary.again) = (vec![2], 1);
        assert!(summary.to_string().contains("\nlost ranks [2]; 1 task requeued\n"), "{summary}");
        (summary.ended_with, summary.change) = (2, Some("it pays".into()));
        assert!(summary.to_string().contains("\nfrom 3 to 2 workers: it pays\n"), "{summary}");
        assert!(!summary.to_string().contains("were set up in"), "{summary}");
        summary.ranks[1].warm_up = Duration::from_secs(2);
        assert!(
            summary
                .to_string()
                .contains("\nworkers were set up in 2.000 s at most, which counts as idle time\n"),
            "{summary}"
        );
        (summary.copies, summary.ended_in_copies) = (2, 1);
        let copies = "\n2 chunks sent a second time to idle ranks, where 1 task ended first\n";
        assert!(summary.to_string().contains(copies), "{summary}");
        summary.ranks.clear();
        assert_eq!(summary.efficiency(), 0.0);
    }
}

//! Summary of a run of a workflow.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::failed_task::FailedTask;
use crate::observe::number_format::count;
use crate::observe::summary::{RankWork, RunSummary, cell, write_headline, write_table};
use crate::session::topology::Size;

/// Statistics of one rank's work for a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankReport {
    /// Number of tries of tasks, failed ones included.
    pub tasks: u64,
    /// Time that the rank spent on tries of tasks.
    pub busy: Duration,
    /// Bytes of values sent to other ranks.
    pub sent: u64,
    /// Bytes of values spilled to disk.
    pub spilled: u64,
    /// Peak number of bytes that values and running tasks occupied on the rank; the memory of a running task is that in its description.
    pub most_held: u64,
}

/// Measurements of a completed task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Measured {
    /// Rank that ran the task.
    pub rank: usize,
    /// Run time of the try that completed the task.
    pub run_time: Duration,
    /// For a command: peak memory of its processes in bytes.
    pub peak_memory: Option<u64>,
}

/// Summary of a run of a workflow, on rank 0. Its `Display` is a table.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Name of the workflow.
    pub name: String,
    /// Number of completed tasks.
    pub tasks: u64,
    /// Number of tasks that were completed according to the journal.
    pub known: u64,
    /// Tasks that failed at every try.
    pub failed: Vec<FailedTask>,
    /// Number of tasks that were not run because they depend on a failed task.
    pub skipped: u64,
    /// Number of retries after an error or a death in a task.
    pub retried: u64,
    /// Number of tasks that were run again because their rank, or the rank with their value, was lost.
    pub again: u64,
    /// Ranks that died or hung.
    pub lost: Vec<usize>,
    /// Planner of the plan and its predicted makespan in seconds; `None` without a plan.
    pub plan: Option<(String, f64)>,
    /// Number of plans that replaced an earlier plan during the run, because a rank was lost or measurements differed from the description.
    pub replanned: u32,
    /// Time from the start of the run, planning included, to the end of the last task.
    pub elapsed: Duration,
    /// By rank: statistics of its work; empty for a lost rank.
    pub ranks: Vec<RankReport>,
    /// By task: measurements; `None` for a task that was not run.
    pub measured: Vec<Option<Measured>>,
    /// By task: true if it was completed in this or an earlier run.
    pub done: Vec<bool>,
}

impl Summary {
    /// Returns the names of failed tasks in quotation marks: the first five names, and the number of further tasks.
    pub fn failed_names(&self) -> String {
        const MOST: usize = 5;
        let mut names: Vec<String> =
            self.failed.iter().take(MOST).filter_map(FailedTask::name).map(armature_text::quoted).collect();
        if self.failed.len() > MOST {
            names.push(format!("{} more", self.failed.len() - MOST));
        }
        names.join(", ")
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
        None
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = match &self.plan {
            Some((planner, makespan)) => format!("planned by {planner} for {makespan:.3} s"),
            None => "without a plan".to_string(),
        };
        write_headline(f, "workflow", self, &more)?;
        if self.replanned > 0 {
            write!(f, "\nreplanned {}", count(u64::from(self.replanned), "time"))?;
        }
        if self.known > 0 {
            write!(f, "\n{} restored from the journal", self.known)?;
        }
        if !self.failed.is_empty() || self.retried > 0 {
            let failed = count(self.failed.len() as u64, "task");
            write!(f, "\n{failed} failed")?;
            if !self.failed.is_empty() {
                write!(f, " ({})", self.failed_names())?;
            }
            write!(f, ", {} skipped, {} retried", count(self.skipped, "dependent task"), self.retried)?;
        }
        if !self.lost.is_empty() {
            write!(f, "\nlost ranks {:?}; {} requeued", self.lost, count(self.again, "task"))?;
        }
        let row = |(rank, report): (usize, &RankReport)| {
            vec![
                rank.to_string(),
                report.tasks.to_string(),
                cell(report.busy),
                cell(self.elapsed.saturating_sub(report.busy)),
                Size(report.sent).to_string(),
                Size(report.most_held).to_string(),
                Size(report.spilled).to_string(),
            ]
        };
        let rows: Vec<_> = self.ranks.iter().enumerate().map(row).collect();
        write_table(f, &["rank", "tasks", "busy", "idle", "sent", "most held", "spilled"], &rows)
    }
}

//! What a run tells at its end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::failed_task::FailedTask;
use crate::observe::summary::{RankWork, RunSummary, cell, write_headline, write_table};
use crate::observe::words::count;
use crate::session::topology::Size;

/// What one rank did for a workflow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Tries that it made, failed ones included.
    pub tasks: u64,
    /// Time that it spent in them.
    pub busy: Duration,
    /// Bytes of values that it sent to others.
    pub sent: u64,
    /// Bytes of values that it wrote to disk for want of memory.
    pub spilled: u64,
    /// Most bytes that values and running tasks took, or were declared to take, at any moment.
    pub most_held: u64,
}

/// What was measured of a task.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Where it ran.
    pub rank: usize,
    /// How long it took.
    pub run_time: Duration,
    /// Most memory that its processes held, in bytes, if it was a command.
    pub peak_memory: Option<u64>,
}

/// What rank 0 knows after a workflow has run. Its `Display` is the table that people read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The workflow's name.
    pub name: String,
    /// Tasks that were done.
    pub tasks: u64,
    /// Those among them that an earlier run has left in the journal.
    pub known: u64,
    /// Tasks that failed for good.
    pub failed: Vec<FailedTask>,
    /// Tasks that were not run because they depend on these.
    pub skipped: u64,
    /// Tries after the first, because of an error or a death in the task.
    pub retried: u64,
    /// Tasks that were run again because the rank that had them, or what they gave, was lost.
    pub again: u64,
    /// Ranks that died or hung.
    pub lost: Vec<usize>,
    /// Who made the plan, and the makespan that it predicts, in seconds; `None` if tasks went to whichever rank was free.
    pub plan: Option<(String, f64)>,
    /// How often another plan was made for what was left, because a rank was lost or tasks were other than was assumed, and taken.
    pub replanned: u32,
    /// From the start of the run, when the plan was made, to the end of the last task.
    pub elapsed: Duration,
    /// By rank; what a lost rank did is not known.
    pub ranks: Vec<RankReport>,
    /// By task: what was measured of it, if it was run.
    pub measured: Vec<Option<Measured>>,
    /// By task: whether it is done, by this run or one before.
    pub done: Vec<bool>,
}

impl Summary {
    /// Returns the names of failed tasks in quotation marks: the first five, and the number of the others.
    pub fn failed_names(&self) -> String {
        const MOST: usize = 5;
        let mut names: Vec<String> =
            self.failed.iter().take(MOST).map(|failed| armature_text::quoted(failed.name())).collect();
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
            write!(f, "\nplanned anew {}", count(u64::from(self.replanned), "time"))?;
        }
        if self.known > 0 {
            write!(f, "\n{} were known from the journal", self.known)?;
        }
        if !self.failed.is_empty() || self.retried > 0 {
            let failed = count(self.failed.len() as u64, "task");
            write!(f, "\n{failed} failed")?;
            if !self.failed.is_empty() {
                write!(f, " ({})", self.failed_names())?;
            }
            write!(f, ", {} skipped behind them, {} retried", self.skipped, self.retried)?;
        }
        if !self.lost.is_empty() {
            write!(f, "\nlost ranks {:?}; {} run again", self.lost, count(self.again, "task"))?;
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

//! What a run tells at its end.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observe::words::{count, seconds, short};

/// What one rank did for a farm.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Tasks that it did, failed ones included.
    pub tasks: u64,
    /// Chunks that it did.
    pub chunks: u64,
    /// Time that it spent in tasks.
    pub busy: Duration,
    /// Time that making its worker took.
    pub warm_up: Duration,
}

/// What rank 0 knows after a farm has run. Its `Display` is the table that people read.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Summary {
    /// The farm's name.
    pub farm: String,
    /// Tasks that were done or failed for good.
    pub tasks: u64,
    /// Those among them whose results were in the journal.
    pub known: u64,
    /// Tasks that failed at every attempt.
    pub failed: u64,
    /// Attempts after the first, because of an error or a death in the task.
    pub retried: u64,
    /// Tasks that were handed out once more because the rank that had them was lost.
    pub again: u64,
    /// Ranks that died or hung.
    pub lost: Vec<usize>,
    /// Chunks that were handed out.
    pub chunks: u64,
    /// How chunks were made.
    pub chunking: String,
    /// Iterations; 1 for a stream.
    pub iterations: usize,
    /// From the start of the run to the last result.
    pub elapsed: Duration,
    /// By rank; what a lost rank did is what its results said.
    pub ranks: Vec<RankReport>,
    /// Ranks that were to do tasks at the start, rank 0 among them if it does; the others were parked.
    pub started_with: usize,
    /// Ranks that did at the end.
    pub ended_with: usize,
    /// Why their number was changed last, in one sentence; `None` if it was not.
    pub change: Option<String>,
    /// The ranks that led others at the end instead of doing tasks.
    pub sub_masters: Vec<usize>,
}

impl Summary {
    /// Sum of the tasks' times.
    pub fn busy(&self) -> Duration {
        self.ranks.iter().map(|r| r.busy).sum()
    }

    /// Ranks that did tasks.
    pub fn workers(&self) -> usize {
        self.ranks.iter().filter(|r| r.tasks > 0).count()
    }

    /// Sum of the tasks' times over the time that the workers had: 1 is the best. 0 if there was nothing to do.
    pub fn efficiency(&self) -> f64 {
        match self.workers() as f64 * self.elapsed.as_secs_f64() {
            available if available > 0.0 => self.busy().as_secs_f64() / available,
            _ => 0.0,
        }
    }

    /// Tasks per second, all in all.
    pub fn throughput(&self) -> f64 {
        self.tasks as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "farm {}: {} in {}, {} tasks/s; {}, chunking {}; efficiency {:.1} %",
            self.farm,
            count(self.tasks, "task"),
            seconds(self.elapsed.as_secs_f64()),
            short(self.throughput()),
            count(self.chunks, "chunk"),
            self.chunking,
            100.0 * self.efficiency()
        )?;
        if self.iterations != 1 {
            write!(f, "; {}", count(self.iterations as u64, "iteration"))?;
        }
        if self.known > 0 {
            write!(f, "\n{} were known from the journal", self.known)?;
        }
        if self.failed + self.retried > 0 {
            write!(f, "\n{} failed, {} retried", count(self.failed, "task"), self.retried)?;
        }
        if !self.lost.is_empty() {
            write!(f, "\nlost ranks {:?}; {} handed out again", self.lost, count(self.again, "task"))?;
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
        write!(f, "\n{:>5}  {:>10}  {:>8}  {:>12}  {:>6}", "rank", "tasks", "chunks", "busy", "share")?;
        for (rank, report) in self.ranks.iter().enumerate() {
            let share = 100.0 * report.busy.as_secs_f64() / self.elapsed.as_secs_f64().max(1e-9);
            write!(
                f,
                "\n{rank:>5}  {:>10}  {:>8}  {:>12}  {share:>4.0} %",
                report.tasks,
                report.chunks,
                seconds(report.busy.as_secs_f64())
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_counts_the_ranks_that_worked() {
        let rank =
            |tasks, seconds| RankReport { tasks, busy: Duration::from_secs(seconds), ..Default::default() };
        let mut summary = Summary {
            farm: "square".into(),
            tasks: 12,
            known: 0,
            failed: 0,
            retried: 0,
            again: 0,
            lost: vec![],
            chunks: 3,
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
        assert!(summary.to_string().starts_with("farm square: 12 tasks in 10.000 s, 1.20 tasks/s; 3 chunks"));
        (summary.lost, summary.again) = (vec![2], 1);
        assert!(summary.to_string().contains("\nlost ranks [2]; 1 task handed out again\n"), "{summary}");
        (summary.ended_with, summary.change) = (2, Some("it pays".into()));
        assert!(summary.to_string().contains("\nfrom 3 to 2 workers: it pays\n"), "{summary}");
        summary.ranks.clear();
        assert_eq!(summary.efficiency(), 0.0);
    }
}

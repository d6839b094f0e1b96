//! Summary of a loop's run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observe::number_format::count;
use crate::observe::summary::{RankWork, RunSummary, cell, write_headline, write_table};

/// Statistics of one rank's work in a run of a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct RankReport {
    /// Number of computed units. A unit counts once per pass; a fraction of a unit counts as a fraction.
    pub units: f64,
    /// Number of units (rows or indices) that the rank held at the end of the run.
    pub held: u64,
    /// Number of blocks that the rank computed. A block is the work of one call of user code.
    pub blocks: u64,
    /// Time that the rank spent on computing blocks (in calls of user code).
    pub busy: Duration,
    /// Part of the computing time (`busy`) in which other processes had the core.
    pub off_core: Duration,
    /// Time in which the rank waited for other ranks.
    pub waiting: Duration,
    /// Time that the rank spent on sending and receiving units (rows or indices) that moved between ranks.
    pub moving: Duration,
    /// Time that the rank spent on its reports and on rank 0's instructions; on rank 0 also on decisions about movements of units (rows or indices).
    pub interacting: Duration,
    /// Number of units (rows or indices) that the rank sent to other ranks.
    pub sent: u64,
    /// Number of units (rows or indices) that the rank received from other ranks.
    pub received: u64,
}

/// Summary of a run of a loop, on rank 0. Its `Display` is a table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[non_exhaustive]
pub struct Summary {
    /// Name of the loop.
    pub name: String,
    /// Number of units (rows or indices) of the loop.
    pub units: u64,
    /// Number of passes: in each of them every unit (row or index) of the loop is computed once.
    pub passes: u64,
    /// Time from the start of the run to the end of its last pass.
    pub elapsed: Duration,
    /// Number of interactions with the balancer. In each, all ranks report measurements, and rank 0 decides whether units (rows or indices) move.
    pub interactions: u64,
    /// Number of decisions of rank 0 by which units (rows or indices) moved between ranks.
    pub movements: u64,
    /// Final size of a block, the work of one call of user code: number of units (rows or indices), or number of columns in a loop over a grid with
    /// strips of columns.
    pub block: u64,
    /// Initial number of units (rows or indices) of each rank.
    pub first: Vec<u64>,
    /// Reason for the last movement of units between ranks, in one sentence; `None` if no unit moved.
    pub change: Option<String>,
    /// Statistics of the work of each rank.
    pub ranks: Vec<RankReport>,
}

impl Summary {
    /// Returns the number of units (rows or indices) that moved between ranks; a unit that moved several times counts each time.
    pub fn moved(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.sent).sum()
    }
}

impl RunSummary for Summary {
    fn name(&self) -> &str {
        &self.name
    }

    fn work(&self) -> (u64, &'static str) {
        (self.units.saturating_mul(self.passes), "unit")
    }

    fn elapsed(&self) -> Duration {
        self.elapsed
    }

    fn ranks(&self) -> Vec<RankWork> {
        let work =
            |rank: &RankReport| RankWork { done: rank.units, busy: rank.busy, off_core: rank.off_core };
        self.ranks.iter().map(work).collect()
    }

    fn last_change(&self) -> Option<&str> {
        self.change.as_deref()
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = format!(
            "{} in {}, in blocks of {}; {}, {} moved in {}",
            count(self.units, "unit"),
            if self.passes == 1 { "1 pass".to_string() } else { format!("{} passes", self.passes) },
            self.block,
            count(self.interactions, "interaction"),
            count(self.moved(), "unit"),
            count(self.movements, "movement")
        );
        write_headline(f, "loop", self, &more)?;
        if let Some(why) = &self.change {
            write!(f, "\nlast movement: {why}")?;
        }
        let row = |(rank, report): (usize, &RankReport)| {
            let first = self.first.get(rank).copied().unwrap_or(0);
            vec![
                rank.to_string(),
                format!("{:.0}", report.units),
                cell(report.busy),
                cell(self.elapsed.saturating_sub(report.busy)),
                cell(report.off_core),
                first.to_string(),
                report.held.to_string(),
                cell(report.waiting),
                cell(report.moving),
                report.sent.to_string(),
                report.received.to_string(),
            ]
        };
        let rows: Vec<_> = self.ranks.iter().enumerate().map(row).collect();
        let heads = ["rank", "units", "busy", "idle", "off core", "at first", "at last", "waiting", "moving"];
        write_table(f, &[&heads[..], &["sent", "received"]].concat(), &rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn efficiency_excludes_core_time_of_other_processes() {
        let rank = |busy, off_core, held, sent| RankReport {
            busy: Duration::from_secs(busy),
            off_core: Duration::from_secs(off_core),
            held,
            sent,
            ..RankReport::default()
        };
        let mut summary = Summary {
            name: "sor".into(),
            units: 9,
            passes: 40,
            elapsed: Duration::from_secs(10),
            interactions: 12,
            movements: 1,
            block: 10,
            first: vec![5, 4],
            change: Some("it pays".into()),
            ranks: vec![rank(10, 4, 3, 2), rank(9, 0, 6, 0)],
        };
        assert_eq!((summary.efficiency(), summary.moved()), (15.0 / 16.0, 2));
        let text = summary.to_string();
        assert!(text.starts_with(
            "loop sor: 360 units in 10.000 s, 36.00 units/s, efficiency 93.8 %; 9 units in 40 passes, in blocks of 10; \
             12 interactions, 2 units moved in 1 movement\nlast movement: it pays\nrank  units      busy     idle  off core"
        ));
        assert!(text.contains("\n   0      0  10.000 s      0 s   4.000 s         5        3 "), "{text}");
        summary.ranks.clear();
        assert_eq!(summary.efficiency(), 0.0);
    }
}

//! The summary of a loop's run.

use std::fmt;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::observe::words::{count, seconds};

/// What one rank did for a loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RankReport {
    /// Units that it did; a unit that was done in several passes counts for each, and in parts in parts.
    pub units: f64,
    /// Units that it has at the end.
    pub held: u64,
    /// Blocks in which it did them.
    pub blocks: u64,
    /// Time that it spent in them.
    pub computing: Duration,
    /// The part of that in which other processes had its core.
    pub off_core: Duration,
    /// Time that it waited for other ranks.
    pub waiting: Duration,
    /// Time that it spent in sending and receiving units.
    pub moving: Duration,
    /// Time that reports, instructions and, on rank 0, decisions took.
    pub interacting: Duration,
    /// Units that it sent to others.
    pub sent: u64,
    /// Units that it received.
    pub received: u64,
}

/// What rank 0 knows after a loop has run. Its `Display` is the table that people read.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// The loop's name.
    pub name: String,
    /// Its units.
    pub units: u64,
    /// How often each was done.
    pub passes: u64,
    /// From the start of the run to the end of its last pass.
    pub elapsed: Duration,
    /// Times at which the ranks reported and rank 0 decided.
    pub interactions: u64,
    /// Times that units moved.
    pub movements: u64,
    /// Units, or iterations of the pipelined loop, in a block at the end.
    pub block: u64,
    /// Units of each rank at first.
    pub first: Vec<u64>,
    /// Why units moved last, in one sentence; `None` if they did not.
    pub change: Option<String>,
    /// By rank.
    pub ranks: Vec<RankReport>,
}

impl Summary {
    /// Units that moved; one that passed through several ranks counts for each.
    pub fn moved(&self) -> u64 {
        self.ranks.iter().map(|rank| rank.sent).sum()
    }

    /// Productive time over available time, by (1) of Siegell and Steenkiste (1997): the time in which ranks had their core
    /// and computed, over the time of the run on all ranks without that in which other processes had the core of a rank
    /// that would have computed. 1 is the best; 0 if there was nothing to do.
    pub fn efficiency(&self) -> f64 {
        let off: f64 = self.ranks.iter().map(|rank| rank.off_core.as_secs_f64()).sum();
        let computing: f64 = self.ranks.iter().map(|rank| rank.computing.as_secs_f64()).sum();
        match self.ranks.len() as f64 * self.elapsed.as_secs_f64() - off {
            available if available > 0.0 => (computing - off) / available,
            _ => 0.0,
        }
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "loop {}: {}, {} in {}, in blocks of {}; efficiency {:.1} %; {}, {} moved in {}",
            self.name,
            count(self.units, "unit"),
            if self.passes == 1 { "1 pass".to_string() } else { format!("{} passes", self.passes) },
            seconds(self.elapsed.as_secs_f64()),
            self.block,
            100.0 * self.efficiency(),
            count(self.interactions, "interaction"),
            count(self.moved(), "unit"),
            count(self.movements, "movement")
        )?;
        if let Some(why) = &self.change {
            write!(f, "\nlast movement: {why}")?;
        }
        write!(
            f,
            "\n{:>5}  {:>8}  {:>8}  {:>12}  {:>12}  {:>12}  {:>12}  {:>8}  {:>8}",
            "rank", "at first", "at last", "computing", "off core", "waiting", "moving", "sent", "received"
        )?;
        for (rank, report) in self.ranks.iter().enumerate() {
            let time = |time: Duration| seconds(time.as_secs_f64());
            write!(
                f,
                "\n{rank:>5}  {:>8}  {:>8}  {:>12}  {:>12}  {:>12}  {:>12}  {:>8}  {:>8}",
                self.first.get(rank).copied().unwrap_or(0),
                report.held,
                time(report.computing),
                time(report.off_core),
                time(report.waiting),
                time(report.moving),
                report.sent,
                report.received
            )?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_others_had_of_the_cores_was_not_available() {
        let rank = |computing, off_core, held, sent| RankReport {
            computing: Duration::from_secs(computing),
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
            "loop sor: 9 units, 40 passes in 10.000 s, in blocks of 10; efficiency 93.8 %; 12 interactions, 2 units \
             moved in 1 movement\nlast movement: it pays\n rank  at first   at last  "
        ));
        assert!(text.contains("\n    0         5         3      10.000 s       4.000 s "), "{text}");
        summary.ranks.clear();
        assert_eq!(summary.efficiency(), 0.0);
    }
}

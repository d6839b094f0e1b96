//! Rank 0's side of a run of a loop. Its directives go to all ranks at once, as a star (`doall/star.rs`), or from rank to rank, down a
//! chain (`grid/chain.rs`); what both know of a run is here.

use std::time::Duration;

use armature_planner::loops::LoopBalancer;

use super::controller::LoopController;
use super::summary::{RankReport, Summary};
use crate::error::Result;
use crate::observe::{Event, Progress};
use crate::persist::snapshot::{Saved, SnapshotCoordinator};

/// What rank 0 knows of a run, whichever way its directives go.
pub(super) struct Coordinator {
    /// The loop's name.
    name: String,
    pub(super) controller: LoopController,
    snapshots: Option<SnapshotCoordinator>,
    /// Units that each rank has at first.
    pub(super) first: Vec<u64>,
    begun: Duration,
    pub(super) ended: Option<Duration>,
}

/// What the next run begins with on rank 0.
#[derive(Debug)]
pub(super) struct Learned {
    /// Units of each rank.
    pub(super) held: Vec<u64>,
    pub(super) balancer: LoopBalancer,
}

impl Coordinator {
    /// For a run that begins now.
    pub(super) fn new(
        name: &str,
        controller: LoopController,
        snapshots: Option<SnapshotCoordinator>,
        first: Vec<u64>,
        now: Duration,
    ) -> Self {
        Coordinator { name: name.to_string(), controller, snapshots, first, begun: now, ended: None }
    }

    /// A rank has written its units to a checkpoint.
    ///
    /// # Errors
    /// If no checkpoint can be made of what ranks have written.
    pub(super) fn on_saved(&mut self, rank: usize, pass: u64, saved: Vec<Saved>) -> Result<()> {
        self.snapshots.as_mut().map_or(Ok(()), |snapshots| snapshots.on_saved(rank, pass, saved))
    }

    /// How far the run is: `done` of `total` things.
    pub(super) fn progress(
        &self,
        (done, total): (u64, Option<u64>),
        what: &'static str,
        rest: String,
    ) -> Progress {
        let of = format!("loop {:?}", self.name);
        Progress { of, done, before: 0, part: 0.0, total, what, rest }
    }

    /// Whether the units are to be written as they are after `pass` passes.
    pub(super) fn snapshot_due(&mut self, pass: u64, now: Duration) -> Option<u64> {
        self.snapshots.as_mut().and_then(|snapshots| snapshots.is_due(pass, now))
    }

    /// How the loop over `units` units went in `passes` passes, with the size of blocks at the end and what each rank did and
    /// has.
    pub(super) fn finish(
        mut self,
        (units, passes): (u64, u64),
        block: u64,
        ranks: Vec<RankReport>,
        held: Vec<u64>,
    ) -> (Summary, Learned) {
        let elapsed = self.ended.unwrap_or_default().saturating_sub(self.begun);
        self.controller.end(passes, elapsed);
        let mut first = self.first;
        first.resize(ranks.len(), 0);
        let summary = Summary {
            name: self.name,
            units,
            passes,
            elapsed,
            interactions: self.controller.interactions(),
            movements: self.controller.movements(),
            block,
            first,
            change: self.controller.change(),
            ranks,
        };
        self.controller.record(|| Event::totals_of(&summary));
        (summary, Learned { held, balancer: self.controller.into_balancer() })
    }
}

//! Part of rank 0's coordinator that all kinds of loops share. `doall/coordinator.rs` adds directives of rank
//! 0 that go to all ranks at once, and `grid/coordinator.rs` those that go from rank to rank along a chain.

use std::time::Duration;

use armature_planner::loops::LoopBalancer;

use super::controller::LoopController;
use super::summary::{RankReport, Summary};
use crate::comm::endpoint::stopping::kept;
use crate::error::Result;
use crate::observe::{Event, Progress};
use crate::persist::snapshot::{SnapshotCoordinator, Written};

/// Part of the coordinator of a loop, on rank 0, that does not depend on how directives reach the ranks: all at once, or along a
/// chain of ranks.
pub(super) struct LoopCoordinator {
    name: String,
    pub(super) controller: LoopController,
    snapshots: Option<SnapshotCoordinator>,
    /// Initial number of units (rows or indices) of each rank.
    pub(super) first: Vec<u64>,
    start: Duration,
    pub(super) ended: Option<Duration>,
    pub(super) stop_requested: bool,
    /// True if the run is to stop when its next checkpoint is due, instead of at the end of the present pass.
    stops_at_checkpoint: bool,
    has_last_snapshot: bool,
}

/// Distribution of units (rows or indices) over the ranks, and balancer with the learned speeds and costs, which rank 0 passes to the next run
/// of the loop.
#[derive(Debug)]
pub(super) struct Learned {
    pub(super) held: Vec<u64>,
    pub(super) balancer: LoopBalancer,
}

impl LoopCoordinator {
    pub(super) fn new(
        name: &str,
        controller: LoopController,
        snapshots: Option<SnapshotCoordinator>,
        first: Vec<u64>,
        now: Duration,
    ) -> Self {
        LoopCoordinator {
            name: name.to_string(),
            controller,
            snapshots,
            first,
            start: now,
            ended: None,
            stop_requested: false,
            stops_at_checkpoint: false,
            has_last_snapshot: false,
        }
    }

    /// Records at time `now` that a rank has written its units (rows or indices) to a checkpoint.
    ///
    /// # Errors
    /// If the pieces that ranks have written do not make a complete checkpoint.
    pub(super) fn on_saved(&mut self, rank: usize, pass: u64, written: Written, now: Duration) -> Result<()> {
        self.snapshots.as_mut().map_or(Ok(()), |snapshots| snapshots.on_saved(rank, pass, written, now))
    }

    /// Returns the progress of the run for display: `done` of `total` sweeps, or computations of units (rows or indices). `what` is their name
    /// for users, such as "panels".
    pub(super) fn progress(
        &self,
        (done, total): (u64, Option<u64>),
        what: &'static str,
        rest: String,
    ) -> Progress {
        let of = format!("loop {:?}", self.name);
        Progress { of, done, before: 0, part: 0.0, total, what, rest }
    }

    /// Returns `pass` if a checkpoint is due that contains the units (rows or indices) as they are after `pass` passes.
    pub(super) fn snapshot_due(&mut self, pass: u64, now: Duration) -> Option<u64> {
        self.snapshots.as_mut().and_then(|snapshots| snapshots.begin_if_due(pass, now))
    }

    /// Asks the run to stop at the end of the present pass, or when its next checkpoint is due if `at_checkpoint` is true and it has checkpoints.
    pub(super) fn request_stop(&mut self, at_checkpoint: bool) {
        self.stops_at_checkpoint = at_checkpoint && self.snapshots.is_some();
        self.stop_requested |= !self.stops_at_checkpoint;
    }

    /// Returns true if the run has to stop now; called at the end of a pass. A requested stop may have to wait for the next
    /// checkpoint.
    pub(super) fn must_stop(&mut self, now: Duration) -> bool {
        let is_due = || self.snapshots.as_ref().is_some_and(|snapshots| snapshots.is_due(now));
        self.stop_requested |= self.stops_at_checkpoint && is_due();
        self.stop_requested
    }

    pub(super) fn is_saving(&self) -> bool {
        self.snapshots.as_ref().is_some_and(SnapshotCoordinator::is_open)
    }

    /// Begins the checkpoint that a run writes before it stops after `pass` passes. Returns `pass` if ranks must write their units (rows or
    /// indices), or `None` without checkpoints.
    pub(super) fn last_snapshot(&mut self, pass: u64) -> Option<u64> {
        let is_started = std::mem::replace(&mut self.has_last_snapshot, true);
        self.snapshots.as_mut().filter(|_| !is_started).and_then(|snapshots| snapshots.begin(pass))
    }

    /// Describes the progress of a run that was stopped after `done` of `total` passes; if the run has a complete checkpoint, the part of the
    /// progress that the newest checkpoint contains.
    pub(super) fn kept(&self, done: u64, total: u64, what: &str) -> String {
        match self.snapshots.as_ref().and_then(SnapshotCoordinator::kept) {
            Some((saved, dir)) => kept((saved, Some(total)), what, Some(dir)),
            None => kept((done, Some(total)), what, None),
        }
    }

    /// Returns the summary of a run of `passes` passes over `units` units (rows or indices), and the distribution and the balancer with which the
    /// next run begins. `block` is the final block size, `ranks` the work statistics of each rank, and `held` the number of units of each rank.
    pub(super) fn finish(
        mut self,
        (units, passes): (u64, u64),
        block: u64,
        ranks: Vec<RankReport>,
        held: Vec<u64>,
    ) -> (Summary, Learned) {
        let elapsed = self.ended.unwrap_or_default().saturating_sub(self.start);
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

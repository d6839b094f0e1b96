//! Directives of rank 0 in a loop over a grid, and the movements of rows that they order.

use armature_planner::loops::BlockMove;
use serde::{Deserialize, Serialize};

/// Order of rank 0 for all ranks with rows, issued before rank 0 begins a sweep. Each rank forwards it to the next rank in the chain.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Directive {
    pub(super) sweep: u64,
    /// Sweep after which ranks report their measurements to rank 0; [`NEVER`] if this directive ends the loop early.
    pub(super) report_after: u64,
    pub(super) movement: Option<Movement>,
    /// Sweep before which ranks write their rows to a checkpoint, if one is due.
    pub(super) save_before: Option<u64>,
}

/// Value of `report_after` in a directive that ends the loop before ranks report measurements again.
pub(super) const NEVER: u64 = u64::MAX;

impl Directive {
    pub(super) fn stop(sweep: u64, before: u64) -> Self {
        Directive { sweep, report_after: NEVER, movement: None, save_before: Some(before) }
    }
}

/// Movement of rows between ranks, which takes place between two sweeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Movement {
    pub(super) before: u64,
    /// Rows to move, in rounds. A rank that only passes rows on sends them in a later round than it receives them.
    pub(super) rounds: Vec<Vec<BlockMove>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Rows move to the rank with the lower number.
    Up,
    /// Rows move to the rank with the higher number.
    Down,
}

impl Movement {
    /// Returns the direction in which the movement sends rows between the ranks `lower` and `lower + 1`; `None` if it sends none
    /// between them. No movement sends rows in both directions.
    pub(super) fn direction(&self, lower: usize) -> Option<Direction> {
        let across = self.rounds.iter().flatten().find(|m| m.from.min(m.to) == lower)?;
        Some(if across.from == lower { Direction::Down } else { Direction::Up })
    }
}

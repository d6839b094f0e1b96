//! Directives of rank 0, and how rows move.

use armature_planner::loops::BlockMove;
use serde::{Deserialize, Serialize};

/// What all ranks are to do. Rank 0 sends it down the chain before it begins a sweep.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(super) struct Directive {
    /// The sweep that rank 0 has not begun yet.
    pub(super) sweep: u64,
    /// After this sweep ranks report.
    pub(super) report_after: u64,
    /// Rows move.
    pub(super) movement: Option<Movement>,
    /// Rows are written to a checkpoint as they are before this sweep.
    pub(super) save_before: Option<u64>,
}

/// Rows that move between two sweeps.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Movement {
    /// Before this sweep.
    pub(super) before: u64,
    /// Who sends which units to whom, in rounds in which nobody sends what it has not received before.
    pub(super) rounds: Vec<Vec<BlockMove>>,
}

/// How a border between two ranks is crossed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// Rows go to the lower rank number.
    Up,
    /// Rows go to the higher rank number.
    Down,
}

impl Movement {
    /// How rows cross the border between ranks `lower` and `lower + 1`; a movement crosses each border in one direction.
    pub(super) fn direction(&self, lower: usize) -> Option<Direction> {
        let across = self.rounds.iter().flatten().find(|m| m.from.min(m.to) == lower)?;
        Some(if across.from == lower { Direction::Down } else { Direction::Up })
    }
}

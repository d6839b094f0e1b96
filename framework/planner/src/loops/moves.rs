//! Moves of units (iterations of a loop) between ranks.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::invalid;
use crate::error::Result;

/// Transfer of units (iterations of a loop) from one rank to another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Move {
    /// Rank that sends the units (loop iterations).
    pub from: usize,
    /// Rank that receives the units (loop iterations).
    pub to: usize,
    /// Number of units (loop iterations) to transfer, at least 1.
    pub units: u64,
}

/// Pairs of ranks between which units (loop iterations) may move.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Reach {
    /// Any two ranks, for loops of independent units (DOALL).
    #[default]
    Anywhere,
    /// A rank and the rank before or after it, so that each rank keeps a block of contiguous units (loop iterations), for DOACROSS loops.
    Neighbours,
}

impl Reach {
    /// Computes the moves of units (loop iterations) from the distribution `current` to `target` with [`direct_moves`] or [`neighbour_moves`].
    ///
    /// # Errors
    /// See [`direct_moves`] and [`neighbour_moves`].
    pub fn moves(self, current: &[u64], target: &[u64]) -> Result<Vec<Move>> {
        match self {
            Reach::Anywhere => direct_moves(current, target),
            Reach::Neighbours => neighbour_moves(current, target),
        }
    }
}

/// Computes the moves of units (loop iterations) from the distribution `current` to `target` if any rank may send to any other: at most P − 1
/// messages for P ranks, and no more units than necessary, in O(P log P).
///
/// The ranks with the largest surplus send to those with the largest deficit (among equal ranks the lower one is preferred). The paper of Siegell and
/// Steenkiste gives only the complexity of the algorithm; the algorithm itself is a guess.
///
/// # Errors
/// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if the numbers of ranks or of units differ.
///
/// ```
/// use armature_planner::loops::{Move, direct_moves};
///
/// let moves = direct_moves(&[5, 9, 1, 7, 3], &[5, 5, 5, 5, 5])?;
/// assert_eq!(moves, [Move { from: 1, to: 2, units: 4 }, Move { from: 3, to: 4, units: 2 }]);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn direct_moves(current: &[u64], target: &[u64]) -> Result<Vec<Move>> {
    check(current, target)?;
    let (mut surplus, mut deficit) = (Vec::new(), Vec::new());
    for (rank, (&has, &wants)) in current.iter().zip(target).enumerate() {
        if has > wants {
            surplus.push((rank, has - wants));
        } else if has < wants {
            deficit.push((rank, wants - has));
        }
    }
    surplus.sort_by_key(|&(_, units)| std::cmp::Reverse(units));
    deficit.sort_by_key(|&(_, units)| std::cmp::Reverse(units));
    let mut moves = Vec::with_capacity(surplus.len() + deficit.len());
    let (mut senders, mut receivers) = (surplus.into_iter(), deficit.into_iter());
    let (mut sender, mut receiver) = (senders.next(), receivers.next());
    while let (Some((from, has)), Some((to, wants))) = (sender, receiver) {
        let units = has.min(wants);
        moves.push(Move { from, to, units });
        sender = if has > units { Some((from, has - units)) } else { senders.next() };
        receiver = if wants > units { Some((to, wants - units)) } else { receivers.next() };
    }
    Ok(moves)
}

/// Computes the moves of units (loop iterations) from the distribution `current` to `target` if ranks send to their neighbours only: at most P − 1
/// messages for P ranks, and no more units across a border between two ranks than necessary, in O(P).
///
/// A rank may have to receive units before it can send them; [`rounds`](super::rounds) orders the moves.
///
/// # Errors
/// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if the numbers of ranks or of units differ.
///
/// ```
/// use armature_planner::loops::{Move, neighbour_moves};
///
/// let moves = neighbour_moves(&[40, 0, 0], &[10, 10, 20])?;
/// assert_eq!(moves, [Move { from: 0, to: 1, units: 30 }, Move { from: 1, to: 2, units: 20 }]);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn neighbour_moves(current: &[u64], target: &[u64]) -> Result<Vec<Move>> {
    check(current, target)?;
    let mut moves = Vec::new();
    let (mut has, mut wants) = (0_u64, 0_u64);
    for rank in 0..current.len().saturating_sub(1) {
        has += current[rank];
        wants += target[rank];
        if has > wants {
            moves.push(Move { from: rank, to: rank + 1, units: has - wants });
        } else if has < wants {
            moves.push(Move { from: rank + 1, to: rank, units: wants - has });
        }
    }
    Ok(moves)
}

fn check(current: &[u64], target: &[u64]) -> Result<()> {
    if current.len() != target.len() {
        return invalid(format!(
            "units of {} ranks cannot be moved to {} ranks: the numbers must be equal",
            current.len(),
            target.len()
        ));
    }
    let (has, wants) = (total(current)?, total(target)?);
    if has != wants {
        return invalid(format!(
            "there are {has} units, but the target has {wants}: the numbers must be equal"
        ));
    }
    Ok(())
}

pub(super) fn total(units: &[u64]) -> Result<u64> {
    match units.iter().try_fold(0_u64, |sum, &units| sum.checked_add(units)) {
        Some(total) => Ok(total),
        None => invalid("there are more units than a 64-bit number can count".into()),
    }
}

/// Returns the number of units (loop iterations) that the busiest rank sends and receives, on which the cost of a movement depends. Numbers beyond 64
/// bits are clamped to the largest number.
///
/// ```
/// use armature_planner::loops::{busiest, neighbour_moves};
///
/// let moves = neighbour_moves(&[250; 4], &[143, 286, 286, 285])?;
/// assert_eq!(busiest(&moves), 107 + 71);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn busiest(moves: &[Move]) -> u64 {
    let mut handled: BTreeMap<usize, u64> = BTreeMap::new();
    for m in moves {
        for rank in [m.from, m.to] {
            let units = handled.entry(rank).or_default();
            *units = units.saturating_add(m.units);
        }
    }
    handled.into_values().max().unwrap_or(0)
}

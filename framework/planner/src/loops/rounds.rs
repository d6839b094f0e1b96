//! Order of the moves of units (loop iterations), if a rank must receive units before it can send them on.

use std::ops::Range;

use serde::{Deserialize, Serialize};

use super::invalid;
use super::moves::{Move, total};
use crate::error::Result;

/// Splits moves of units (loop iterations) into rounds in which no rank sends more units than it held at the beginning of the round.
///
/// In each round, in the order of the moves, a rank sends as many of its pending units as it holds. A move may be spread over several rounds. Units
/// received in a round can be sent in the next one.
///
/// # Errors
/// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if a move names a rank that does not exist, if moves need units that their sender never receives, if
/// moves form a cycle that takes too many rounds, or if the number of units exceeds 64 bits.
///
/// Without cycles there are no more rounds than ranks. With cycles there may be one round for each rank and each move; more rounds are an error,
/// because a few units could otherwise move in a cycle for an arbitrary number of rounds.
///
/// ```
/// use armature_planner::loops::{Move, rounds};
///
/// let (a, b) = (Move { from: 0, to: 1, units: 30 }, Move { from: 1, to: 2, units: 20 });
/// assert_eq!(rounds(&[40, 0, 0], &[a, b])?, [vec![a], vec![b]]);
/// // If rank 1 holds enough units, it need not wait for those of rank 0.
/// assert_eq!(rounds(&[40, 25, 0], &[a, b])?, [vec![a, b]]);
/// // If rank 1 holds only some of the units, it sends these first.
/// let part = |units| Move { units, ..b };
/// assert_eq!(rounds(&[40, 15, 0], &[a, b])?, [vec![a, part(15)], vec![part(5)]]);
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn rounds(current: &[u64], moves: &[Move]) -> Result<Vec<Vec<Move>>> {
    total(current)?;
    if let Some(m) = moves.iter().find(|m| m.from.max(m.to) >= current.len()) {
        return invalid(format!(
            "units cannot move from rank {} to rank {}: there are {} ranks, numbered from 0",
            m.from,
            m.to,
            current.len()
        ));
    }
    let mut held = current.to_vec();
    let mut pending: Vec<Move> = moves.iter().copied().filter(|m| m.units > 0).collect();
    let most = current.len() + pending.len();
    let mut rounds = Vec::new();
    while !pending.is_empty() {
        let mut left = held;
        let mut round = Vec::with_capacity(pending.len());
        for m in &mut pending {
            let units = m.units.min(left[m.from]);
            if units > 0 {
                left[m.from] -= units;
                m.units -= units;
                round.push(Move { units, ..*m });
            }
        }
        if round.is_empty() {
            let Move { from, to, units } = pending[0];
            return invalid(format!("rank {from} is to send {units} units to rank {to} that it never gets"));
        }
        for m in &round {
            left[m.to] += m.units;
        }
        held = left;
        pending.retain(|m| m.units > 0);
        rounds.push(round);
        if let (Some(Move { from, to, units }), true) = (pending.first(), rounds.len() >= most) {
            return invalid(format!(
                "rank {from} still has to send {units} units to rank {to} after {most} rounds: the moves go in circles"
            ));
        }
    }
    Ok(rounds)
}

/// Range of contiguous units (loop iterations) that moves from a rank to the rank before or after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BlockMove {
    /// Rank that sends the units (loop iterations).
    pub from: usize,
    /// Rank that receives the units (loop iterations), a neighbour of the sender.
    pub to: usize,
    /// Range of the numbers of the units (loop iterations) that move.
    pub units: Range<u64>,
}

/// Computes the ranges of the units (loop iterations) that move, if each rank holds a block of contiguous units: rank 0 the first `current[0]` units,
/// and so on. A rank sends from the end of its block that is adjacent to the receiver, so that all ranks hold blocks after each round.
///
/// # Errors
/// [`ErrorKind::Loop`](crate::ErrorKind::Loop) if the sender and the receiver of a move are not neighbours, or if two moves cross the same border;
/// the errors of [`rounds`].
///
/// ```
/// use armature_planner::loops::{block_moves, neighbour_moves};
///
/// let moves = neighbour_moves(&[40, 0, 0], &[10, 10, 20])?;
/// let rounds = block_moves(&[40, 0, 0], &moves)?;
/// assert_eq!((rounds[0][0].to, rounds[0][0].units.clone()), (1, 10..40));
/// assert_eq!((rounds[1][0].to, rounds[1][0].units.clone()), (2, 20..40));
/// # Ok::<(), armature_planner::Error>(())
/// ```
pub fn block_moves(current: &[u64], moves: &[Move]) -> Result<Vec<Vec<BlockMove>>> {
    if let Some(m) = moves.iter().find(|m| m.from.abs_diff(m.to) != 1) {
        return invalid(format!(
            "units cannot move from rank {} to rank {}: blocks move between neighbours only",
            m.from, m.to
        ));
    }
    let mut crossed: Vec<usize> = moves.iter().map(|m| m.from.min(m.to)).collect();
    crossed.sort_unstable();
    if let Some(pair) = crossed.windows(2).find(|pair| pair[0] == pair[1]) {
        return invalid(format!("two moves cross the border between ranks {} and {}", pair[0], pair[0] + 1));
    }
    let rounds = rounds(current, moves)?;
    let mut borders = current.to_vec();
    for rank in 1..borders.len() {
        borders[rank] += borders[rank - 1];
    }
    let mut reported = Vec::new();
    for round in rounds {
        let mut next = borders.clone();
        let mut blocks = Vec::with_capacity(round.len());
        for m in round {
            let lower = m.from.min(m.to);
            let (border, is_up) = (next[lower], m.from == lower);
            next[lower] = if is_up { border - m.units } else { border + m.units };
            let units = border.min(next[lower])..border.max(next[lower]);
            blocks.push(BlockMove { from: m.from, to: m.to, units });
        }
        borders = next;
        reported.push(blocks);
    }
    Ok(reported)
}

//! Simulation of all workers of a grid loop in one thread, without transport: in a random order, messages between neighbours are
//! delivered and workers take their next step.

use std::collections::VecDeque;
use std::ops::Range;

use armature_planner::loops::{block_moves, neighbour_moves};
pub(super) use armature_planner::random::Random;
use bytes::Bytes;

use super::directive::{Directive, Movement};
use super::messages::{NeighbourSender, ToNeighbour, delivered};
use super::neighbours::Position;
use super::worker::{GridAction, GridWorker};
use crate::error::Result;
pub(super) use crate::loops::random_shares::random_shares;

#[derive(Default)]
struct Sent(Vec<(usize, ToNeighbour<Bytes>)>);

impl NeighbourSender for Sent {
    fn send(&mut self, to: usize, message: ToNeighbour<&[u8]>) -> Result<()> {
        // The message `Wanted` only makes a rank poll more often while it computes. Simulated workers do not poll, so it is dropped.
        if !matches!(message, ToNeighbour::Wanted) {
            self.0.push((to, delivered(message)));
        }
        Ok(())
    }
}

pub(super) struct Plan {
    pub(super) sweeps: u64,
    /// Number of sweeps between a directive of rank 0 and the movement of rows that the directive orders.
    pub(super) delay: u64,
    /// Rank 0 orders a movement of rows before a sweep with the probability 1 / `movements`, unless a movement is in progress; 0 for no movements.
    pub(super) movements: usize,
}

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ChainTotals {
    pub(super) movements: u64,
    /// Largest number of rounds in which the rows of one movement were sent. In a round no rank sends rows that it receives in the same round.
    pub(super) rounds: usize,
    pub(super) sent: u64,
    /// Largest number of sweeps by which rank 0 was ahead of the last rank.
    pub(super) skew: u64,
}

/// Simulates the workers until all have done their sweeps; `held` is the initial number of rows of each worker.
pub(super) fn run<M: GridWorker>(
    workers: &mut [M],
    mut held: Vec<u64>,
    plan: &Plan,
    random: &mut Random,
    mut work: impl FnMut(usize, &mut M, &Range<usize>),
) -> ChainTotals {
    let ranks = workers.len();
    let mut wires: Vec<VecDeque<ToNeighbour<Bytes>>> = (0..ranks * ranks).map(|_| VecDeque::new()).collect();
    let mut done = vec![false; ranks];
    let mut at = vec![0; ranks];
    let mut totals = ChainTotals::default();
    // Sweep before which the rows of the last ordered movement move; `None` if no movement is ordered.
    let mut under_way: Option<u64> = None;
    let mut idle = 0;
    while !done.iter().all(|done| *done) {
        // Workers of low ranks are chosen far more often than other workers, so that they run ahead as far as the protocol permits.
        let rank = if random.below(4) == 0 {
            random.below(ranks)
        } else {
            random.below(ranks).min(random.below(ranks))
        };
        if random.below(2) == 0 {
            let from = random.below(ranks);
            if let Some(message) = wires[from * ranks + rank].pop_front() {
                workers[rank].receive(from, message).unwrap();
                idle = 0;
            }
        }
        let worker = &mut workers[rank];
        let mut out = Sent::default();
        idle += 1;
        if !done[rank] {
            let action = worker.next(&mut out).unwrap();
            idle = if matches!(action, GridAction::Wait) { idle } else { 0 };
            match action {
                GridAction::Compute(piece) => {
                    work(rank, worker, &piece);
                    worker.computed(&mut out).unwrap();
                }
                GridAction::Boundary(sweep) => {
                    at[rank] = sweep;
                    totals.skew = totals.skew.max(at[0].saturating_sub(at[ranks - 1]));
                    let is_early = sweep + plan.delay < plan.sweeps;
                    if rank == 0 && is_early && under_way.is_some_and(|b| b > sweep) && random.below(2) == 0 {
                        // While rows are yet to move, rank 0 also sends a directive that moves no rows, like one for a checkpoint.
                        let directive = Directive { sweep, report_after: sweep, ..Directive::default() };
                        worker.carry_out(directive, &mut out).unwrap();
                    }
                    if rank == 0 && under_way.is_none_or(|before| before <= sweep) && plan.movements > 0 {
                        let before = sweep + plan.delay;
                        under_way = None;
                        if before < plan.sweeps && random.below(plan.movements) == 0 {
                            let target = random_shares(random, held.iter().sum(), ranks);
                            let moves = neighbour_moves(&held, &target).unwrap();
                            let rounds = block_moves(&held, &moves).unwrap();
                            totals.movements += u64::from(!rounds.is_empty());
                            totals.rounds = totals.rounds.max(rounds.len());
                            held = target;
                            under_way = Some(before);
                            let movement = Some(Movement { before, rounds });
                            let directive =
                                Directive { sweep, report_after: before, movement, save_before: None };
                            worker.carry_out(directive, &mut out).unwrap();
                        }
                    }
                }
                GridAction::MovementDone { sent, .. } => totals.sent += sent,
                GridAction::Done => done[rank] = true,
                GridAction::Moving | GridAction::Wait => {}
            }
        }
        for (to, message) in out.0 {
            wires[rank * ranks + to].push_back(message);
        }
        if idle > 10_000 {
            let why: Vec<String> = workers.iter().map(GridWorker::waiting_for).collect();
            panic!("nothing goes on: {why:?}, at {at:?}");
        }
    }
    assert!(wires.iter().all(VecDeque::is_empty), "messages are left");
    let has: Vec<u64> = workers.iter().map(GridWorker::held).collect();
    assert_eq!(has, held);
    totals
}

pub(super) fn positions(ranks: usize) -> impl Iterator<Item = Position> {
    (0..ranks).map(move |rank| Position { rank, chain: ranks })
}

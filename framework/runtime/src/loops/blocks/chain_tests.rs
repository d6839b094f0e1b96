//! Chains of machines without ranks: messages are delivered, and machines go on, in an order drawn at random.

use std::collections::VecDeque;

use armature_planner::loops::{block_moves, neighbour_moves};

use super::machine::{Machine, Step};
use super::mail::{Mail, Out, Place};
use super::orders::{Movement, Orders};
use crate::comm::Part;
use crate::comm::message::{FRAME_HEADER, TAG_AT, Tag, frame_header};
use crate::error::Result;
pub(super) use crate::loops::lots::Lots;

/// What a machine sends, until it is put on the wires.
#[derive(Default)]
struct Sent(Vec<(usize, Mail)>);

impl Out for Sent {
    fn begin(&mut self, tag: Tag, bytes: usize) -> Vec<u8> {
        let mut head = Vec::with_capacity(FRAME_HEADER + bytes);
        head.extend_from_slice(&frame_header(1, tag));
        head
    }

    fn send(&mut self, to: usize, head: Vec<u8>, parts: Vec<Part>) -> Result<()> {
        // Machines here are never too busy to look.
        if head[TAG_AT] == Tag::Wanted as u8 {
            return Ok(());
        }
        let kinds = [Tag::Border, Tag::Orders, Tag::Units];
        let tag = kinds.into_iter().find(|tag| *tag as u8 == head[TAG_AT]).unwrap();
        self.0.push((to, Mail { tag, body: bytes::Bytes::from(head).slice(FRAME_HEADER..), parts }));
        Ok(())
    }
}

/// How a chain is run.
pub(super) struct Plan {
    pub(super) sweeps: u64,
    /// How many sweeps after the order rows move at the earliest.
    pub(super) delay: u64,
    /// Of how many sweeps rank 0 orders a movement before one; 0 for none.
    pub(super) movements: usize,
}

/// What came of it.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Story {
    pub(super) movements: u64,
    /// Rounds of the movement that took the most.
    pub(super) rounds: usize,
    /// Rows that were sent.
    pub(super) sent: u64,
    /// How many sweeps rank 0 was ahead of the last rank at most.
    pub(super) skew: u64,
}

/// Runs machines to their end; `held` is how many rows each has.
pub(super) fn run<M: Machine>(
    machines: &mut [M],
    mut held: Vec<u64>,
    plan: &Plan,
    lots: &mut Lots,
    mut work: impl FnMut(usize, &mut M, &M::Piece),
) -> Story {
    let ranks = machines.len();
    let mut wires: Vec<VecDeque<Mail>> = (0..ranks * ranks).map(|_| VecDeque::new()).collect();
    let mut done = vec![false; ranks];
    let mut at = vec![0; ranks];
    let mut story = Story::default();
    // The sweep before which rows move.
    let mut under_way: Option<u64> = None;
    let mut idle = 0;
    while !done.iter().all(|done| *done) {
        // Ranks of very different speed, in turns.
        let rank =
            if lots.below(4) == 0 { lots.below(ranks) } else { lots.below(ranks).min(lots.below(ranks)) };
        if lots.below(2) == 0 {
            let from = lots.below(ranks);
            if let Some(mail) = wires[from * ranks + rank].pop_front() {
                machines[rank].receive(from, mail).unwrap();
                idle = 0;
            }
        }
        let machine = &mut machines[rank];
        let mut out = Sent::default();
        idle += 1;
        if !done[rank] {
            let step = machine.next(&mut out).unwrap();
            idle = if matches!(step, Step::Wait) { idle } else { 0 };
            match step {
                Step::Compute(piece) => {
                    work(rank, machine, &piece);
                    machine.computed(&mut out).unwrap();
                }
                Step::Boundary(sweep) => {
                    at[rank] = sweep;
                    story.skew = story.skew.max(at[0].saturating_sub(at[ranks - 1]));
                    if rank == 0 && under_way.is_none_or(|before| before <= sweep) && plan.movements > 0 {
                        let before = sweep + plan.delay;
                        under_way = None;
                        if before < plan.sweeps && lots.below(plan.movements) == 0 {
                            let target = lots.shares(held.iter().sum(), ranks);
                            let moves = neighbour_moves(&held, &target).unwrap();
                            let rounds = block_moves(&held, &moves).unwrap();
                            story.movements += u64::from(!rounds.is_empty());
                            story.rounds = story.rounds.max(rounds.len());
                            held = target;
                            under_way = Some(before);
                            let movement = Some(Movement { before, rounds });
                            let orders = Orders { sweep, report_after: before, movement, save_before: None };
                            machine.order(orders, &mut out).unwrap();
                        }
                    }
                }
                Step::Moved { sent, .. } => story.sent += sent,
                Step::Done => done[rank] = true,
                Step::Moving | Step::Wait => {}
            }
        }
        for (to, mail) in out.0 {
            wires[rank * ranks + to].push_back(mail);
        }
        if idle > 10_000 {
            let why: Vec<String> = machines.iter().map(Machine::waiting_for).collect();
            panic!("nothing goes on: {why:?}, at {at:?}");
        }
    }
    assert!(wires.iter().all(VecDeque::is_empty), "messages are left");
    let has: Vec<u64> = machines.iter().map(Machine::held).collect();
    assert_eq!(has, held);
    story
}

/// The places of a chain.
pub(super) fn places(ranks: usize) -> impl Iterator<Item = Place> {
    (0..ranks).map(move |rank| Place { rank, chain: ranks })
}

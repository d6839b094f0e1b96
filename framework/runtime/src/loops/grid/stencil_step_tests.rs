//! Tests of chains of stencil workers against the serial loop.

use super::super::chain_tests::{ChainTotals, Plan, Random, positions, random_shares, run};
use super::super::messages::delivered;
use super::super::shape::{Edges, Shape};
use super::super::view::OldGrid;
use super::super::worker::typed;
use super::*;

fn fill(row: u64, values: &mut [f64]) {
    let mut random = Random::new(row);
    values.iter_mut().for_each(|value| *value = (random.draw() >> 40) as f64);
}

/// Computes a step of the heat equation from the values above, below, left and right. Column 2 is not computed, so the worker must keep its values.
fn step(old: OldGrid<'_, f64>, new: &mut [f64]) {
    let width = old.width;
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        for column in (1..width - 1).filter(|column| *column != 2) {
            let at = row * width + column;
            let b = old.values;
            new[column] = b[at] + 0.2 * (b[at - width] + b[at - 1] + b[at + 1] + b[at + width] - 4.0 * b[at]);
        }
    }
}

fn serial(shape: Shape, edges: Edges, sweeps: u64) -> Vec<f64> {
    let mut old = vec![0.0; (edges.units(shape) + 2) as usize * shape.columns];
    (0..).zip(old.chunks_exact_mut(shape.columns)).for_each(|(row, values)| fill(edges.number(row), values));
    let inner = shape.columns..old.len() - shape.columns;
    let mut new = old.clone();
    for _ in 0..sweeps {
        step(OldGrid { values: &old, width: shape.columns, first: 0, ring: None }, &mut new[inner.clone()]);
        if edges != Edges::Fixed {
            new.copy_within(inner.end - shape.columns..inner.end, 0);
            new.copy_within(inner.start..inner.start + shape.columns, inner.end);
        }
        std::mem::swap(&mut old, &mut new);
    }
    old
}

fn both(shape: Shape) -> [Edges; 2] {
    [Edges::Fixed, Edges::Periodic(shape.rows)]
}

/// Simulates two runs of a loop, the second from the state after the first, and compares the values with those of the serial loop.
fn check(shape: Shape, edges: Edges, ranks: usize, plan: &Plan, seed: u64) -> ChainTotals {
    let mut random = Random::new(seed);
    let held = random_shares(&mut random, edges.units(shape), ranks);
    let mut locals: Vec<LocalRows<f64>> = Vec::new();
    for (rank, units) in held.iter().enumerate() {
        let first = 1 + held[..rank].iter().sum::<u64>();
        let make = |row: u64, values: &mut [f64]| {
            fill(edges.number(row), values);
            Ok(())
        };
        locals.push(LocalRows::create(shape.columns, first..first + units, make).unwrap().between(edges));
    }
    let mut all = ChainTotals::default();
    for _ in 0..2 {
        let held = locals.iter().map(|local| local.len() as u64).collect();
        let mut workers: Vec<StencilStep<f64>> = positions(ranks)
            .zip(locals)
            .map(|(position, local)| StencilStep::new(position, local, plan.sweeps))
            .collect();
        let totals = run(&mut workers, held, plan, &mut random, |_, worker, rows| {
            let mut lent = worker.lend();
            let (old, new) = typed::<OldAndNew<f64>>(&mut *lent).unwrap().band(rows);
            step(old, new);
            worker.take_back(lent).unwrap();
        });
        all.movements += totals.movements;
        all.sent += totals.sent;
        all.rounds = all.rounds.max(totals.rounds);
        locals = workers.into_iter().map(|worker| worker.old).collect();
    }
    let expected = serial(shape, edges, 2 * plan.sweeps);
    for local in &mut locals {
        let rows = local.rows();
        let position = (rows.start - 1) as usize * shape.columns..(rows.end + 1) as usize * shape.columns;
        let is_same =
            local.grid().values.iter().zip(&expected[position]).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(is_same, "rows {rows:?} with halo rows, {edges:?}, {ranks} ranks, seed {seed}");
    }
    all
}

#[test]
fn any_order_of_events_gives_the_serial_result() {
    for ranks in 1..=8 {
        for seed in 0..20 {
            let shape = Shape { rows: 10 + seed % 9, columns: 3 + seed as usize % 9 };
            for edges in both(shape) {
                check(shape, edges, ranks, &Plan { sweeps: 6, delay: 1, movements: 0 }, seed);
            }
        }
    }
}

#[test]
fn thousands_of_migrations_keep_the_serial_result() {
    let mut all = ChainTotals::default();
    for ranks in 2..=8 {
        for seed in 0..200 {
            let shape = Shape { rows: 10 + seed % 40, columns: 3 + seed as usize % 7 };
            let plan = Plan { sweeps: 60, delay: ranks as u64, movements: 1 + seed as usize % 2 };
            let edges = both(shape)[usize::from(seed >= 150)];
            let totals = check(shape, edges, ranks, &plan, seed);
            all.movements += totals.movements;
            all.rounds = all.rounds.max(totals.rounds);
        }
    }
    assert!(all.movements > 10_000 && all.rounds > 2, "{all:?}");
}

struct Nowhere;

impl NeighbourSender for Nowhere {
    fn send(&mut self, _: usize, _: ToNeighbour<&[u8]>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn late_directive_is_refused() {
    let local = LocalRows::<f64>::create(5, 4..6, |_, _| Ok(())).unwrap();
    let mut stencil_step = StencilStep::new(Position { rank: 1, chain: 3 }, local, 9);
    let directive = |before| Directive {
        movement: Some(Movement { before, rounds: Vec::new() }),
        ..Directive::default()
    };
    let error = stencil_step.carry_out(directive(0), &mut Nowhere).unwrap_err();
    assert!(
        error.to_string().contains("rank 0 sent a directive to move rows before sweep 0 in sweep 0"),
        "{error}"
    );
    stencil_step.carry_out(directive(3), &mut Nowhere).unwrap();
    assert!(stencil_step.carry_out(directive(5), &mut Nowhere).is_err(), "one is under way");
    assert_eq!(stencil_step.waiting_for(), "for the halo row of sweep 0 from rank 2");
}

/// In a grid with periodic rows on two ranks, rank 1 is both the neighbour below rank 0 and the rank at the opposite end. Rank 0 must not confuse the
/// rows that it receives from rank 1 in these two roles.
#[test]
fn wrapped_rows_are_distinguished_from_neighbour_rows() {
    let local = LocalRows::<f64>::create(3, 1..3, |_, _| Ok(())).unwrap().between(Edges::Periodic(6));
    for (chain, across) in [(2, 1), (3, 2)] {
        let position = Position { rank: 0, chain };
        let mut first = StencilStep::new(position, local.clone(), 9);
        (first.sweep, first.above_ready, first.below_ready) = (1, false, false);
        first.receive(1, delivered(ToNeighbour::HaloRow(HaloRow::of(0, 0..3, &[7.0; 3])))).unwrap();
        assert!(!first.take_halo(&mut Nowhere).unwrap());
        assert_eq!(first.waiting_for(), format!("for the halo row of sweep 0 from rank {across}"));
        first.receive(across, delivered(ToNeighbour::WrapRow(HaloRow::of(0, 0..3, &[6.0; 3])))).unwrap();
        assert!(first.take_halo(&mut Nowhere).unwrap());
        assert_eq!((first.old.upper()[0], first.old.lower()[0]), (6.0, 7.0));
    }
    let mut middle = StencilStep::new(Position { rank: 1, chain: 3 }, local, 9);
    (middle.sweep, middle.above_ready) = (1, false);
    middle.receive(0, delivered(ToNeighbour::WrapRow(HaloRow::of(0, 0..3, &[6.0; 3])))).unwrap();
    let error = middle.take_halo(&mut Nowhere).unwrap_err();
    assert!(
        error.message().contains("rank 0 sent WrapRow of a loop over a grid, expected a halo row"),
        "{error}"
    );
}

//! Chains of stencil workers against the serial loop.

use super::super::chain_tests::{Outcome, Plan, Random, positions, random_shares, run};
use super::super::shape::Shape;
use super::super::view::OldGrid;
use super::*;

/// Any values, the same for the same place.
fn fill(row: u64, values: &mut [f64]) {
    let mut random = Random::new(row);
    values.iter_mut().for_each(|value| *value = (random.draw() >> 40) as f64);
}

/// A step of the heat equation, with values above, below and beside, and one that no other one is made of: the value at
/// column 2 stays what it is.
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

fn serial(shape: Shape, sweeps: u64) -> Vec<f64> {
    let mut old = vec![0.0; shape.rows as usize * shape.columns];
    (0..).zip(old.chunks_exact_mut(shape.columns)).for_each(|(row, values)| fill(row, values));
    let mut new = old.clone();
    for _ in 0..sweeps {
        let inner = shape.columns..(shape.rows as usize - 1) * shape.columns;
        step(OldGrid { values: &old, width: shape.columns, first: 0 }, &mut new[inner]);
        std::mem::swap(&mut old, &mut new);
    }
    old
}

/// Runs a chain twice, the second time from where the first ended, and compares with the serial loop.
fn check(shape: Shape, ranks: usize, plan: &Plan, seed: u64) -> Outcome {
    let mut random = Random::new(seed);
    let held = random_shares(&mut random, shape.units(), ranks);
    let mut locals: Vec<LocalRows<f64>> = Vec::new();
    for (rank, units) in held.iter().enumerate() {
        let first = 1 + held[..rank].iter().sum::<u64>();
        let make = |row: u64, values: &mut [f64]| {
            fill(row, values);
            Ok(())
        };
        locals.push(LocalRows::create(shape.columns, first..first + units, make).unwrap());
    }
    let mut all = Outcome::default();
    for _ in 0..2 {
        let held = locals.iter().map(|local| local.len() as u64).collect();
        let mut workers: Vec<StencilStep<f64>> = positions(ranks)
            .zip(locals)
            .map(|(position, local)| StencilStep::new(position, local, plan.sweeps))
            .collect();
        let outcome = run(&mut workers, held, plan, &mut random, |_, worker, rows| {
            let mut lent = worker.lend();
            let (old, new) = lent.band(rows);
            step(old, new);
            worker.take_back(lent);
        });
        all.movements += outcome.movements;
        all.sent += outcome.sent;
        all.rounds = all.rounds.max(outcome.rounds);
        locals = workers.into_iter().map(|worker| worker.old).collect();
    }
    let expected = serial(shape, 2 * plan.sweeps);
    for local in &mut locals {
        let rows = local.rows();
        let position = (rows.start - 1) as usize * shape.columns..(rows.end + 1) as usize * shape.columns;
        let is_same =
            local.grid().values.iter().zip(&expected[position]).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(is_same, "rows {rows:?} with halo rows, {ranks} ranks, seed {seed}");
    }
    all
}

#[test]
fn any_order_of_events_gives_the_serial_result() {
    for ranks in 1..=8 {
        for seed in 0..20 {
            let shape = Shape { rows: 10 + seed % 9, columns: 3 + seed as usize % 9 };
            check(shape, ranks, &Plan { sweeps: 6, delay: 1, movements: 0 }, seed);
        }
    }
}

#[test]
fn rows_move_thousands_of_times_and_the_result_stays_the_serial_one() {
    let mut all = Outcome::default();
    for ranks in 2..=8 {
        for seed in 0..150 {
            let shape = Shape { rows: 10 + seed % 40, columns: 3 + seed as usize % 7 };
            let plan = Plan { sweeps: 60, delay: ranks as u64, movements: 1 + seed as usize % 2 };
            let outcome = check(shape, ranks, &plan, seed);
            all.movements += outcome.movements;
            all.rounds = all.rounds.max(outcome.rounds);
        }
    }
    assert!(all.movements > 10_000 && all.rounds > 2, "{all:?}");
}

#[test]
fn a_late_order_is_refused() {
    struct Nowhere;
    impl Outgoing for Nowhere {
        fn send(&mut self, _: usize, _: ToNeighbour<&[u8]>) -> Result<()> {
            Ok(())
        }
    }
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
    assert_eq!(stencil_step.waiting_for(), "for the border of sweep 0 from rank 2");
}

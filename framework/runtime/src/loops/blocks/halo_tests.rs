//! Chains of stencil machines against the serial loop.

use super::super::chain_tests::{Lots, Plan, Story, places, run};
use super::super::grid::OldGrid;
use super::super::shape::Shape;
use super::*;

/// Any values, the same for the same place.
fn fill(row: u64, values: &mut [f64]) {
    let mut lots = Lots(row);
    values.iter_mut().for_each(|value| *value = (lots.draw() >> 40) as f64);
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
fn check(shape: Shape, ranks: usize, plan: &Plan, seed: u64) -> Story {
    let mut lots = Lots(seed);
    let held = lots.shares(shape.units(), ranks);
    let mut blocks: Vec<Block<f64>> = Vec::new();
    for (rank, units) in held.iter().enumerate() {
        let first = 1 + held[..rank].iter().sum::<u64>();
        let make = |row: u64, values: &mut [f64]| {
            fill(row, values);
            Ok(())
        };
        blocks.push(Block::create(shape.columns, first..first + units, make).unwrap());
    }
    let mut all = Story::default();
    for _ in 0..2 {
        let held = blocks.iter().map(|block| block.len() as u64).collect();
        let mut machines: Vec<Halo<f64>> =
            places(ranks).zip(blocks).map(|(place, block)| Halo::new(place, block, plan.sweeps)).collect();
        let story = run(&mut machines, held, plan, &mut lots, |_, machine, rows| {
            let (old, new) = machine.band(rows);
            step(old, new);
        });
        all.movements += story.movements;
        all.sent += story.sent;
        all.rounds = all.rounds.max(story.rounds);
        blocks = machines.into_iter().map(|machine| machine.old).collect();
    }
    let expected = serial(shape, 2 * plan.sweeps);
    for block in &mut blocks {
        let rows = block.rows();
        let place = (rows.start - 1) as usize * shape.columns..(rows.end + 1) as usize * shape.columns;
        let is_same =
            block.grid().values.iter().zip(&expected[place]).all(|(a, b)| a.to_bits() == b.to_bits());
        assert!(is_same, "rows {rows:?} with ghosts, {ranks} ranks, seed {seed}");
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
    let mut all = Story::default();
    for ranks in 2..=8 {
        for seed in 0..150 {
            let shape = Shape { rows: 10 + seed % 40, columns: 3 + seed as usize % 7 };
            let plan = Plan { sweeps: 60, delay: ranks as u64, movements: 1 + seed as usize % 2 };
            let story = check(shape, ranks, &plan, seed);
            all.movements += story.movements;
            all.rounds = all.rounds.max(story.rounds);
        }
    }
    assert!(all.movements > 10_000 && all.rounds > 2, "{all:?}");
}

#[test]
fn a_late_order_is_refused() {
    struct Nowhere;
    impl Out for Nowhere {
        fn begin(&mut self, _: Tag, _: usize) -> Vec<u8> {
            Vec::new()
        }
        fn send(&mut self, _: usize, _: Vec<u8>, _: Vec<crate::comm::Part>) -> Result<()> {
            Ok(())
        }
    }
    let block = Block::<f64>::create(5, 4..6, |_, _| Ok(())).unwrap();
    let mut halo = Halo::new(Place { rank: 1, chain: 3 }, block, 9);
    let orders =
        |before| Orders { movement: Some(Movement { before, rounds: Vec::new() }), ..Orders::default() };
    let error = halo.order(orders(0), &mut Nowhere).unwrap_err();
    assert!(
        error.to_string().contains("rank 0 sent orders to move rows before sweep 0 in sweep 0"),
        "{error}"
    );
    halo.order(orders(3), &mut Nowhere).unwrap();
    assert!(halo.order(orders(5), &mut Nowhere).is_err(), "one is under way");
    assert_eq!(halo.waiting_for(), "for the border of sweep 0 from rank 2");
}

//! Chains of sweepers against the serial loop.

use super::super::chain_tests::{Lots, Plan, Story, places, run};
use super::super::grid::Grid;
use super::super::shape::Shape;
use super::*;

/// Any values, the same for the same place.
fn fill(row: u64, values: &mut [f64]) {
    let mut lots = Lots(row);
    values.iter_mut().for_each(|value| *value = (lots.draw() >> 40) as f64);
}

/// Successive over-relaxation in Gauss-Seidel order.
fn relax(grid: &mut Grid<'_, f64>, columns: &Range<usize>) {
    let width = grid.width;
    for row in 1..grid.rows() - 1 {
        for i in row * width + columns.start..row * width + columns.end {
            let b = &mut *grid.values;
            b[i] = 0.493 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]) - 0.972 * b[i];
        }
    }
}

fn serial(shape: Shape, sweeps: u64) -> Vec<f64> {
    let mut values = vec![0.0; shape.rows as usize * shape.columns];
    (0..).zip(values.chunks_exact_mut(shape.columns)).for_each(|(row, values)| fill(row, values));
    for _ in 0..sweeps {
        let mut grid = Grid { values: &mut values, width: shape.columns, first: 0 };
        relax(&mut grid, &shape.inner());
    }
    values
}

/// Runs a chain twice, the second time from where the first ended, and compares with the serial loop.
fn check(shape: Shape, ranks: usize, plan: &Plan, seed: u64) -> Story {
    let mut lots = Lots(seed);
    let held = lots.shares(shape.units(), ranks);
    let mut first = 1;
    let mut blocks: Vec<Block<f64>> = Vec::new();
    for units in &held {
        blocks.push(
            Block::create(shape.columns, first..first + units, |row, values| {
                fill(row, values);
                Ok(())
            })
            .unwrap(),
        );
        first += units;
    }
    let strips = |width: usize| Strips::new(shape.inner().len(), ranks, Some(width as u64));
    let mut all = Story::default();
    for _ in 0..2 {
        let strip = 1 + lots.below(shape.inner().len() + 2);
        let held = blocks.iter().map(|block| block.len() as u64).collect();
        let mut machines: Vec<Sweeper<f64>> = places(ranks)
            .zip(blocks)
            .map(|(place, block)| Sweeper::new(place, block, shape.inner(), plan.sweeps, strips(strip)))
            .collect();
        let mut widths = Lots(seed ^ 1);
        let story = run(&mut machines, held, plan, &mut lots, |rank, machine, columns| {
            let is_last = columns.end == shape.inner().end;
            relax(&mut machine.block.grid(), columns);
            if rank == 0 && is_last {
                // The next sweep is done in other strips.
                machine.strips = strips(1 + widths.below(shape.inner().len()));
            }
        });
        all.movements += story.movements;
        all.sent += story.sent;
        all.rounds = all.rounds.max(story.rounds);
        all.skew = all.skew.max(story.skew);
        blocks = machines.into_iter().map(|machine| machine.block).collect();
    }
    let expected = serial(shape, 2 * plan.sweeps);
    let is_same = |a: &[f64], b: &[f64]| a.iter().map(|a| a.to_bits()).eq(b.iter().map(|b| b.to_bits()));
    for block in &mut blocks {
        let rows = block.rows();
        let place = (rows.start - 1) as usize * shape.columns..(rows.end + 1) as usize * shape.columns;
        assert!(is_same(block.grid().values, &expected[place]), "rows {rows:?} with ghosts, seed {seed}");
    }
    all
}

#[test]
fn any_order_of_events_gives_the_serial_result() {
    for ranks in 1..=8 {
        for seed in 0..20 {
            let shape = Shape { rows: 12 + seed % 9, columns: 3 + seed as usize * 3 % 20 };
            check(shape, ranks, &Plan { sweeps: 5, delay: 1, movements: 0 }, seed);
        }
    }
}

#[test]
fn rows_move_thousands_of_times_and_the_result_stays_the_serial_one() {
    let mut all = Story::default();
    for ranks in 2..=8 {
        for seed in 0..150 {
            let shape = Shape { rows: 10 + seed % 40, columns: 3 + seed as usize * 7 % 20 };
            let plan = Plan { sweeps: 12, delay: 1, movements: 1 + seed as usize % 3 };
            let story = check(shape, ranks, &plan, seed);
            all.movements += story.movements;
            all.rounds = all.rounds.max(story.rounds);
            all.skew = all.skew.max(story.skew);
        }
    }
    assert!(all.movements > 10_000 && all.rounds > 2 && all.skew > 1, "{all:?}");
}

#[test]
fn a_rank_may_be_almost_a_sweep_ahead_of_the_one_below_and_not_more() {
    let shape = Shape { rows: 10, columns: 42 };
    let mut skew = 0;
    for seed in 0..40 {
        skew = skew.max(check(shape, 2, &Plan { sweeps: 20, delay: 1, movements: 0 }, seed).skew);
    }
    // Of the sweeps that have begun.
    assert_eq!(skew, 2);
}

#[test]
fn one_row_a_rank_and_one_column_are_enough() {
    for ranks in 1..=8 {
        for seed in 0..10 {
            let shape = Shape { rows: ranks as u64 + 2, columns: 3 };
            let story = check(shape, ranks, &Plan { sweeps: 4, delay: 1, movements: 1 }, seed);
            assert_eq!(story.sent, 0, "there is nothing to give away");
        }
    }
}

#[test]
fn messages_out_of_step_are_refused() {
    use crate::comm::message::Tag;
    let block = Block::<f64>::create(5, 4..6, |_, _| Ok(())).unwrap();
    let mut sweeper = Sweeper::new(Place { rank: 1, chain: 3 }, block, 1..4, 2, Strips::new(3, 3, None));
    let mail = |tag, body: Vec<u8>| Mail { tag, body: body.into(), parts: Vec::new() };
    let error = sweeper.receive(3, mail(Tag::Border, vec![])).unwrap_err();
    assert!(error.to_string().contains("rank 3 sent Border, expected nothing"), "{error}");
    struct Nowhere;
    impl Out for Nowhere {
        fn begin(&mut self, _: Tag, _: usize) -> Vec<u8> {
            Vec::new()
        }
        fn send(&mut self, _: usize, _: Vec<u8>, _: Vec<crate::comm::Part>) -> Result<()> {
            Ok(())
        }
    }
    assert_eq!(sweeper.next(&mut Nowhere).unwrap(), Step::Boundary(0));
    assert_eq!(sweeper.next(&mut Nowhere).unwrap(), Step::Wait);
    assert_eq!(sweeper.waiting_for(), "for strip 0 of sweep 0 from rank 0");
    let border = |sweep: u64, start: u64, values: usize| {
        [&sweep.to_le_bytes()[..], &start.to_le_bytes(), &vec![0; values]].concat()
    };
    let wrong =
        [border(1, 0, 8), border(0, 1, 8), border(0, 0, 48), border(0, 0, 7), border(0, 0, 0), vec![0; 3]];
    for body in wrong {
        sweeper.receive(0, mail(Tag::Border, body)).unwrap();
        let error = sweeper.next(&mut Nowhere).unwrap_err();
        assert!(
            error.to_string().contains("rank 0 sent ") && error.to_string().contains("expected"),
            "{error}"
        );
    }
    sweeper.receive(0, mail(Tag::Units, vec![])).unwrap();
    let error = sweeper.next(&mut Nowhere).unwrap_err();
    assert!(error.to_string().contains("rank 0 sent Units, expected a border or orders"), "{error}");
}

//! Tests of DOACROSS loops (wavefronts over a grid) on simulated ranks, against the serial loop.

use super::super::chain_tests::{ChainTotals, Plan, Random, positions, random_shares, run};
use super::super::messages::delivered;
use super::super::shape::Shape;
use super::super::view::Grid;
use super::*;

fn fill(row: u64, values: &mut [f64]) {
    let mut random = Random::new(row);
    values.iter_mut().for_each(|value| *value = (random.draw() >> 40) as f64);
}

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

/// Simulates two runs of a loop, the second from the state after the first, and compares the values with the serial loop.
fn check(shape: Shape, ranks: usize, plan: &Plan, seed: u64) -> ChainTotals {
    let mut random = Random::new(seed);
    let held = random_shares(&mut random, shape.units(), ranks);
    let mut first = 1;
    let mut locals: Vec<LocalRows<f64>> = Vec::new();
    for units in &held {
        locals.push(
            LocalRows::create(shape.columns, first..first + units, |row, values| {
                fill(row, values);
                Ok(())
            })
            .unwrap(),
        );
        first += units;
    }
    let strip_width = |width: usize| StripWidth::new(shape.inner().len(), ranks, Some(width as u64));
    let mut all = ChainTotals::default();
    for _ in 0..2 {
        let strip = 1 + random.below(shape.inner().len() + 2);
        let held = locals.iter().map(|local| local.len() as u64).collect();
        let mut workers: Vec<Wavefront<f64>> = positions(ranks)
            .zip(locals)
            .map(|(position, local)| {
                Wavefront::new(position, local, shape.inner(), plan.sweeps, strip_width(strip))
            })
            .collect();
        let mut widths = Random::new(seed ^ 1);
        let totals = run(&mut workers, held, plan, &mut random, |rank, worker, columns| {
            let is_last = columns.end == shape.inner().end;
            relax(&mut worker.local.grid(), columns);
            if rank == 0 && is_last {
                worker.strip_width = strip_width(1 + widths.below(shape.inner().len()));
            }
        });
        all.movements += totals.movements;
        all.sent += totals.sent;
        all.rounds = all.rounds.max(totals.rounds);
        all.skew = all.skew.max(totals.skew);
        locals = workers.into_iter().map(|worker| worker.local).collect();
    }
    let expected = serial(shape, 2 * plan.sweeps);
    let is_same = |a: &[f64], b: &[f64]| a.iter().map(|a| a.to_bits()).eq(b.iter().map(|b| b.to_bits()));
    for local in &mut locals {
        let rows = local.rows();
        let position = (rows.start - 1) as usize * shape.columns..(rows.end + 1) as usize * shape.columns;
        assert!(
            is_same(local.grid().values, &expected[position]),
            "rows {rows:?} with halo rows, seed {seed}"
        );
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
fn thousands_of_migrations_keep_the_serial_result() {
    let mut all = ChainTotals::default();
    for ranks in 2..=8 {
        for seed in 0..150 {
            let shape = Shape { rows: 10 + seed % 40, columns: 3 + seed as usize * 7 % 20 };
            let plan = Plan { sweeps: 12, delay: 1, movements: 1 + seed as usize % 3 };
            let totals = check(shape, ranks, &plan, seed);
            all.movements += totals.movements;
            all.rounds = all.rounds.max(totals.rounds);
            all.skew = all.skew.max(totals.skew);
        }
    }
    assert!(all.movements > 10_000 && all.rounds > 2 && all.skew > 1, "{all:?}");
}

#[test]
fn rank_is_less_than_one_sweep_ahead_of_its_neighbour() {
    let shape = Shape { rows: 10, columns: 42 };
    let mut skew = 0;
    for seed in 0..40 {
        skew = skew.max(check(shape, 2, &Plan { sweeps: 20, delay: 1, movements: 0 }, seed).skew);
    }
    // A sweep is counted when it begins. Rank 0 therefore counts as two sweeps ahead of the last rank, although it is ahead by less than one sweep.
    assert_eq!(skew, 2);
}

#[test]
fn one_row_per_rank_and_one_column_suffice() {
    for ranks in 1..=8 {
        for seed in 0..10 {
            let shape = Shape { rows: ranks as u64 + 2, columns: 3 };
            let totals = check(shape, ranks, &Plan { sweeps: 4, delay: 1, movements: 1 }, seed);
            assert_eq!(totals.sent, 0, "there is nothing to give away");
        }
    }
}

struct Nowhere;

impl NeighbourSender for Nowhere {
    fn send(&mut self, _: usize, _: ToNeighbour<&[u8]>) -> Result<()> {
        Ok(())
    }
}

#[test]
fn partial_sweeps_are_measured_in_columns() {
    let local = LocalRows::<f64>::create(10, 1..3, |_, _| Ok(())).unwrap();
    let strips = StripWidth::new(8, 1, Some(2));
    let mut wavefront = Wavefront::new(Position { rank: 0, chain: 1 }, local, 1..9, 2, strips);
    let mut parts = Vec::new();
    loop {
        match wavefront.next(&mut Nowhere).unwrap() {
            GridAction::Compute(_) => {
                parts.push((wavefront.sweep(), wavefront.part_done()));
                wavefront.computed(&mut Nowhere).unwrap();
            }
            GridAction::Done => break,
            _ => {}
        }
    }
    let once = [0.0, 0.25, 0.5, 0.75];
    let expected = [0, 1].into_iter().flat_map(|sweep| once.map(|part| (sweep, part)));
    assert!(parts.iter().copied().eq(expected), "{parts:?}");
    assert_eq!((wavefront.sweep(), wavefront.part_done()), (2, 0.0));
}

#[test]
fn unexpected_messages_are_refused() {
    let local = LocalRows::<f64>::create(5, 4..6, |_, _| Ok(())).unwrap();
    let mut wavefront =
        Wavefront::new(Position { rank: 1, chain: 3 }, local, 1..4, 2, StripWidth::new(3, 3, None));
    let halo_row = |sweep: u64, start: u64, values: usize| {
        let row = vec![0_u8; start as usize + values];
        delivered(ToNeighbour::HaloRow(HaloRow::of(sweep, start as usize..row.len(), &row)))
    };
    let error = wavefront.receive(3, halo_row(0, 0, 8)).unwrap_err();
    assert!(
        error.to_string().contains("rank 3 sent HaloRow of a loop over a grid, expected no message"),
        "{error}"
    );
    assert_eq!(wavefront.next(&mut Nowhere).unwrap(), GridAction::Boundary(0));
    assert_eq!(wavefront.next(&mut Nowhere).unwrap(), GridAction::Wait);
    assert_eq!(wavefront.waiting_for(), "for strip 0 of sweep 0 from rank 0");
    let wrong =
        [halo_row(1, 0, 8), halo_row(0, 1, 8), halo_row(0, 0, 48), halo_row(0, 0, 7), halo_row(0, 0, 0)];
    for message in wrong {
        wavefront.receive(0, message).unwrap();
        let error = wavefront.next(&mut Nowhere).unwrap_err();
        assert!(
            error.to_string().contains("rank 0 sent ") && error.to_string().contains("expected"),
            "{error}"
        );
    }
    wavefront.receive(0, ToNeighbour::RowsComing).unwrap();
    let error = wavefront.next(&mut Nowhere).unwrap_err();
    assert!(
        error
            .to_string()
            .contains("rank 0 sent RowsComing of a loop over a grid, expected a halo row or a directive"),
        "{error}"
    );
}

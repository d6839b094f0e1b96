//! Loops over the rows of a grid, which are distributed over the ranks. The result must equal the serial one to the bit, however rows move between
//! ranks.

use std::ops::Range;

use armature::loops::{DoAcross, DoAcrossLoop, Grid, OldGrid, Settings, Shape, Stencil, StencilLoop};
use armature::{Balance, BoxError, Session};

use crate::Case;
use crate::check::{check_equal, ensure, noise};

pub(super) const CASES: &[Case] = &[
    Case { name: "sweeps", run: sweeps },
    Case { name: "sweeps-small", run: small },
    Case { name: "sweeps-moving", run: |session| moving(session, 0..6) },
    Case { name: "stencils", run: stencils },
    Case { name: "stencils-moving", run: |session| stencils_moving(session, 0..4, false) },
    Case { name: "rings-moving", run: |session| stencils_moving(session, 4..8, true) },
];

/// Cases that run with at least a hundred seeds, each of which selects other random movements of rows.
pub(super) const SEEDS: [Case; 2] = [
    Case { name: "sweeps-seeds", run: |session| moving(session, 6..106) },
    Case { name: "stencils-seeds", run: stencils_seeds },
];

/// Operations per grid value that a loop declares to the simulator, so that computing takes more simulated time than messages.
const FLOPS: f64 = 2_000.0;

fn fill(row: u64, values: &mut [f64]) {
    for (column, value) in (0..).zip(values) {
        *value = (noise(row, column) >> 40) as f64 / 1e6;
    }
}

fn relax(b: &mut [f64], width: usize, columns: Range<usize>) {
    for row in 1..(b.len() / width).saturating_sub(1) {
        for i in row * width + columns.start..row * width + columns.end {
            b[i] = 0.493 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width]) - 0.972 * b[i];
        }
    }
}

struct Relax;

impl DoAcross for Relax {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn sweep(&mut self, grid: Grid<'_, f64>, columns: Range<usize>) -> Result<(), BoxError> {
        let values = ((grid.rows() - 2) * columns.len()) as f64;
        armature::declare(FLOPS * values, || relax(grid.values, grid.width, columns));
        Ok(())
    }
}

/// Bit patterns are compared instead of the values, because equal values (0 and -0) may differ in their bits.
fn bits(grid: &[f64]) -> Vec<u64> {
    grid.iter().map(|value| value.to_bits()).collect()
}

fn serial(session: &Session, shape: Shape, sweeps: u64) -> Vec<u64> {
    if !session.is_root() {
        return Vec::new();
    }
    let mut grid = vec![0.0; shape.rows as usize * shape.columns];
    (0..).zip(grid.chunks_exact_mut(shape.columns.max(1))).for_each(|(row, values)| fill(row, values));
    if !shape.inner().is_empty() {
        (0..sweeps).for_each(|_| relax(&mut grid, shape.columns, shape.inner()));
    }
    bits(&grid)
}

/// Runs over-relaxation in two runs of a loop, and compares the grid with the serial one. Returns on rank 0 the number of movements of rows between
/// ranks.
fn check(session: &mut Session, shape: Shape, sweeps: u64, settings: &Settings) -> Result<u64, BoxError> {
    let mut relax = DoAcrossLoop::new("relax", shape, Relax).settings(settings.clone());
    let mut movements = 0;
    for part in [sweeps / 2, sweeps - sweeps / 2] {
        if let Some(summary) = relax.run(session, part)?.into_summary() {
            movements += summary.movements;
            let held: u64 = summary.ranks.iter().map(|rank| rank.held).sum();
            let reports_all_rows = shape.inner().is_empty() || part == 0 || held == shape.units();
            ensure(reports_all_rows, || format!("{held} rows are listed, not {}\n{summary}", shape.units()))?;
        }
    }
    let grid = relax.collect(session)?.unwrap_or_default();
    let what = format!("{} rows of {}, {sweeps} sweeps", shape.rows, shape.columns);
    check_equal(session, &what, &bits(&grid), &serial(session, shape, sweeps))?;
    Ok(movements)
}

fn sweeps(session: &mut Session) -> Result<(), BoxError> {
    for (rows, columns) in [(40, 33), (100, 12), (20, 3)] {
        let shape = Shape { rows, columns };
        check(session, shape, 10, &Settings::new())?;
        check(session, shape, 9, &Settings::new().strip_width(3).balance(Balance::Off))?;
    }
    Ok(())
}

fn small(session: &mut Session) -> Result<(), BoxError> {
    for rows in [0, 1, 2, 3, session.size() as u64 + 1, session.size() as u64 + 2] {
        for columns in [0, 1, 2, 3, 9] {
            check(session, Shape { rows, columns }, 4, &Settings::new())?;
        }
    }
    Ok(())
}

fn moving(session: &mut Session, seeds: Range<u64>) -> Result<(), BoxError> {
    let (mut movements, least) = (0, 25 * (seeds.end - seeds.start) / 3);
    for seed in seeds {
        let shape = Shape { rows: 16 + 9 * (seed % 6), columns: 7 };
        movements += check(session, shape, 150, &Settings::new().forced(seed).strip_width(1 + seed % 6))?;
    }
    ensure(!session.is_root() || session.size() == 1 || movements > least, || {
        format!("rows have moved only {movements} times")
    })
}

fn step(b: &[f64], new: &mut [f64], width: usize) {
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        for (column, new) in new.iter_mut().enumerate().take(width - 1).skip(1) {
            let i = row * width + column;
            *new = b[i] + 0.2 * (b[i - width] + b[i - 1] + b[i + 1] + b[i + width] - 4.0 * b[i]);
        }
    }
}

struct Heat;

impl Stencil for Heat {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        fill(index, values);
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        armature::declare(FLOPS * new.len() as f64, || step(old.values, new, old.width));
        Ok(())
    }
}

/// Computes a step of the heat equation on the whole grid, as a serial program does: with constant first and last rows or, if `is_ring` is true, with
/// periodic rows.
fn whole_step(serial: &mut [f64], width: usize, is_ring: bool) {
    let mut old = serial.to_vec();
    if is_ring {
        let last = old.len() - width;
        old = [&serial[last..], serial, &serial[..width]].concat();
        step(&old, serial, width);
    } else if old.len() > 2 * width {
        step(&old, &mut serial[width..old.len() - width], width);
    }
}

/// Runs the heat equation in two runs of a loop, and compares the grid with the serial one. Returns on rank 0 the number of movements of rows between
/// ranks.
fn check_heat(
    session: &mut Session,
    shape: Shape,
    steps: u64,
    settings: &Settings,
    is_ring: bool,
) -> Result<u64, BoxError> {
    let mut heat = StencilLoop::new("heat", shape, Heat).settings(settings.clone());
    if is_ring {
        heat = heat.periodic();
    }
    let mut movements = 0;
    for part in [steps / 2, steps - steps / 2] {
        movements += heat.run(session, part)?.summary().map_or(0, |summary| summary.movements);
    }
    let grid = heat.collect(session)?.unwrap_or_default();
    let mut serial = Vec::new();
    if session.is_root() {
        serial.resize(shape.rows as usize * shape.columns, 0.0);
        (0..).zip(serial.chunks_exact_mut(shape.columns)).for_each(|(row, values)| fill(row, values));
        (0..steps).for_each(|_| whole_step(&mut serial, shape.columns, is_ring));
    }
    let edges = if is_ring { "in a ring" } else { "between edges" };
    let what = format!("{} rows of {} {edges}, {steps} steps", shape.rows, shape.columns);
    check_equal(session, &what, &bits(&grid), &bits(&serial))?;
    Ok(movements)
}

fn stencils(session: &mut Session) -> Result<(), BoxError> {
    let fewer = session.size() as u64 + 1;
    for (rows, columns) in [(40, 13), (100, 4), (2, 5), (3, 3), (4, 3), (fewer, 7), (1, 4)] {
        let shape = Shape { rows, columns };
        for is_ring in [false, true] {
            check_heat(session, shape, 10, &Settings::new(), is_ring)?;
            check_heat(session, shape, 9, &Settings::new().balance(Balance::Off), is_ring)?;
        }
    }
    Ok(())
}

fn stencils_seeds(session: &mut Session) -> Result<(), BoxError> {
    stencils_moving(session, 8..58, false)?;
    stencils_moving(session, 58..108, true)
}

fn stencils_moving(session: &mut Session, seeds: Range<u64>, is_ring: bool) -> Result<(), BoxError> {
    let (mut movements, least) = (0, 15 * (seeds.end - seeds.start) / 4);
    for seed in seeds {
        let shape = Shape { rows: 16 + 9 * (seed % 4), columns: 7 };
        movements += check_heat(session, shape, 200, &Settings::new().forced(seed), is_ring)?;
    }
    ensure(!session.is_root() || session.size() == 1 || movements > least, || {
        format!("rows have moved only {movements} times")
    })
}

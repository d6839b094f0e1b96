//! Tables whose values are each computed once from their neighbours. They must equal those of the serial program, however rows move between ranks.

use armature::loops::{Cells, Line, Settings, Shape, Table, TableLoop};
use armature::{BoxError, Session};

use crate::Case;
use crate::check::{ensure, noise};

pub(super) const CASES: &[Case] =
    &[Case { name: "tables", run: tables }, Case { name: "tables-moving", run: tables_moving }];

/// Operations per table value that the loop declares to the simulator, so that computing takes more simulated time than messages.
const FLOPS: f64 = 2_000.0;

/// Computes a value of the table: `before` is the value to the upper left, `at` the position.
fn mix(before: u64, above: u64, left: u64, at: u64) -> u64 {
    (before ^ above.rotate_left(9)).wrapping_add(left.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15)
        ^ at
}

/// Value above the first row of the table in a column. `None` is the corner to the left of the first column.
fn above(column: Option<u64>) -> u64 {
    noise(1_000, column.map_or(0, |column| column + 1))
}

fn left(row: u64) -> u64 {
    noise(2_000, row)
}

/// Number of values that a rank has computed, and the largest one with its row and column.
type CountAndLargest = (u64, Option<(u64, u64, u64)>);

fn combine(one: CountAndLargest, other: CountAndLargest) -> CountAndLargest {
    (one.0 + other.0, one.1.max(other.1))
}

struct Largest(CountAndLargest);

impl Table for Largest {
    type Value = u64;

    fn above(&mut self, column: Option<u64>) -> u64 {
        above(column)
    }

    fn left(&mut self, row: u64) -> u64 {
        left(row)
    }

    fn fill(&mut self, mut cells: Cells<'_, u64>) -> Result<(), BoxError> {
        let (rows, columns) = (cells.rows(), cells.columns());
        let count = (rows.end - rows.start) * (columns.end - columns.start);
        armature::declare(FLOPS * count as f64, || {
            for row in rows {
                let Line { above, mut left, values } = cells.line(row);
                for ((column, value), above) in columns.clone().zip(values).zip(above.windows(2)) {
                    left = mix(above[0], above[1], left, row ^ column);
                    *value = left;
                    self.0 = combine(self.0, (1, Some((left, row, column))));
                }
            }
        });
        Ok(())
    }
}

fn serial(shape: Shape) -> CountAndLargest {
    let columns = 0..shape.columns as u64;
    let mut before: Vec<u64> =
        std::iter::once(above(None)).chain(columns.clone().map(|c| above(Some(c)))).collect();
    let mut found = (0, None);
    for row in 0..shape.rows {
        let mut values = vec![left(row)];
        for (column, above) in columns.clone().zip(before.windows(2)) {
            let value = mix(above[0], above[1], values[column as usize], row ^ column);
            values.push(value);
            found = combine(found, (1, Some((value, row, column))));
        }
        before = values;
    }
    found
}

/// Checks the table, and returns on rank 0 the number of movements of rows between ranks.
fn check(session: &mut Session, shape: Shape, settings: Settings) -> Result<u64, BoxError> {
    let mut table = TableLoop::new("largest", shape, Largest((0, None))).settings(settings);
    let movements = table.run(session)?.summary().map_or(0, |summary| summary.movements);
    let found = session.all_reduce(table.body().0, combine)?;
    let expected = serial(shape);
    ensure(found == expected, || format!("{shape:?}: {found:?} is not {expected:?}"))?;
    Ok(movements)
}

fn tables(session: &mut Session) -> Result<(), BoxError> {
    let fewer = session.size() as u64 + 1;
    for (rows, columns) in [(40, 300), (100, 7), (2, 50), (fewer, 20), (1, 1), (0, 9), (9, 0)] {
        let shape = Shape { rows, columns };
        check(session, shape, Settings::new())?;
        check(session, shape, Settings::new().panel_width(16).strip_width(5))?;
    }
    Ok(())
}

fn tables_moving(session: &mut Session) -> Result<(), BoxError> {
    let mut movements = 0;
    for seed in 0..3 {
        let shape = Shape { rows: 16 + 9 * seed, columns: 500 };
        movements += check(session, shape, Settings::new().panel_width(4 + seed).forced(seed))?;
    }
    ensure(!session.is_root() || session.size() == 1 || movements > 10, || {
        format!("rows have moved only {movements} times")
    })
}

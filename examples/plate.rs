//! Heat on a plate with a cold block, until the temperatures no longer change. A stencil: each value is computed from
//! its neighbours in the previous step.
//!
//! ```sh
//! mpirun -n 4 target/release/plate
//! ```

use armature::loops::{OldGrid, Shape, Stencil, StencilLoop, Until};
use armature::{BoxError, Session};

/// Number of steps between two checks of the largest change.
const STEPS: u64 = 50;
/// Maximum number of time steps, after which the run ends even if the temperatures still change.
const MAX_STEPS: u64 = 1_000_000;

struct Plate {
    shape: Shape,
    /// The largest change of a value on this rank since the last check.
    change: f64,
}

impl Stencil for Plate {
    type Value = f64;

    /// Sets the initial values of a row. The upper edge of the plate is hot.
    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(if index == 0 { 1.0 } else { 0.0 });
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        self.change = self.change.max(step(self.shape, |row| old.row_of(row), old.values, new));
        Ok(())
    }
}

fn is_cold(shape: Shape, row: u64, column: usize) -> bool {
    (shape.rows / 4..shape.rows / 3).contains(&row)
        && (shape.columns / 4..shape.columns / 3).contains(&column)
}

/// Computes `new` from `old`, which includes one more row above and one below. Returns the largest change of a value.
/// `row_of` maps a row of `old` to its row in the plate.
fn step(shape: Shape, row_of: impl Fn(usize) -> u64, old: &[f64], new: &mut [f64]) -> f64 {
    let (mut change, width): (f64, _) = (0.0, shape.columns);
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        // The first and the last column are edges, whose values never change.
        for (column, new) in new.iter_mut().enumerate().take(width - 1).skip(1) {
            if is_cold(shape, row_of(row), column) {
                continue;
            }
            let i = row * width + column;
            *new = 0.25 * (old[i - width] + old[i - 1] + old[i + 1] + old[i + width]);
            change = change.max((*new - old[i]).abs());
        }
    }
    change
}

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        let shape = Shape { rows: 500, columns: 500 };
        let (steps, plate) = run_until_settled(session, shape, 1e-5)?;
        if let Some(plate) = plate {
            println!("{:.6} in the middle after {steps} steps", plate[250 * shape.columns + 250]);
        }
        Ok(())
    })
}

/// Runs until no value changes by more than `limit`. Returns the number of steps on all ranks, and the plate on rank
/// 0.
pub(crate) fn run_until_settled(
    session: &mut Session,
    shape: Shape,
    limit: f64,
) -> Result<(u64, Option<Vec<f64>>), BoxError> {
    let mut plate = StencilLoop::new("plate", shape, Plate { shape, change: 0.0 });
    let until = Until::at_most(MAX_STEPS).every(STEPS);
    // At each check, rank 0 compares the largest change of all ranks with the limit; every rank starts again from
    // zero.
    let end =
        plate.run_until(session, until, |body| std::mem::take(&mut body.change), |change| change <= limit)?;
    if !end.is_converged {
        return Err(format!("the plate has not settled after {} steps", end.passes).into());
    }
    Ok((end.passes, plate.collect(session)?))
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    fn serial(shape: Shape, limit: f64) -> (u64, Vec<f64>) {
        let width = shape.columns;
        let mut plate = vec![0.0; shape.rows as usize * width];
        plate[..width].fill(1.0);
        let inner = width..plate.len() - width;
        let mut steps = 0;
        loop {
            let mut change: f64 = 0.0;
            for _ in 0..STEPS {
                let old = plate.clone();
                change = change.max(step(shape, |row| row as u64, &old, &mut plate[inner.clone()]));
            }
            steps += STEPS;
            if change <= limit {
                return (steps, plate);
            }
        }
    }

    #[test]
    fn plate_equals_serial_plate_on_1_to_3_ranks() {
        let (shape, limit) = (Shape { rows: 22, columns: 15 }, 1e-3);
        let (steps, plate) = serial(shape, limit);
        assert!(steps > STEPS);
        let at = |row: usize, column: usize| plate[row * shape.columns + column];
        assert!(
            at(5, 3) == 0.0 && at(6, 4) == 0.0 && at(4, 3) > 0.0 && at(7, 3) > 0.0,
            "rows 5 and 6 are cold"
        );
        for ranks in 1..=3 {
            let settled = armature::run(&Config::new().ranks(ranks), |session| {
                run_until_settled(session, shape, limit)
            });
            assert_eq!(settled.unwrap(), (steps, Some(plate.clone())));
        }
    }
}

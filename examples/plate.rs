//! Heat on a plate with a cold block, until nothing changes any more. A stencil: each value is made of its neighbours as they were a
//! step before.
//!
//! ```sh
//! mpirun -n 4 target/release/plate
//! ```

use armature::loops::{OldGrid, Shape, Stencil, StencilLoop, Until};
use armature::{BoxError, Session};

/// Steps between two looks at how much has changed.
const STEPS: u64 = 50;
/// Steps after which it is given up.
const MOST: u64 = 1_000_000;

struct Plate {
    shape: Shape,
    /// The largest change of a value on this rank since it was asked for.
    change: f64,
}

impl Stencil for Plate {
    type Value = f64;

    /// The upper edge is hot.
    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(if index == 0 { 1.0 } else { 0.0 });
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        // `old` begins with the row above those that are made.
        let row_of = |row| old.row_of(row);
        self.change = self.change.max(step(self.shape, row_of, old.values, new));
        Ok(())
    }
}

/// Whether a value stays cold.
fn is_cold(shape: Shape, row: u64, column: usize) -> bool {
    (shape.rows / 4..shape.rows / 3).contains(&row)
        && (shape.columns / 4..shape.columns / 3).contains(&column)
}

/// Makes `new` of the inner rows of `old`; returns the largest change. `row_of` says which row of the plate a row of `old` is.
fn step(shape: Shape, row_of: impl Fn(usize) -> u64, old: &[f64], new: &mut [f64]) -> f64 {
    let (mut change, width): (f64, _) = (0.0, shape.columns);
    for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
        // The values at both ends stay as they are.
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
        let (steps, plate) = settle(session, shape, 1e-5)?;
        if let Some(plate) = plate {
            println!("{:.6} in the middle after {steps} steps", plate[250 * shape.columns + 250]);
        }
        Ok(())
    })
}

/// Goes on until no value changes by more than `limit`. All ranks get the number of steps, rank 0 the plate.
pub(crate) fn settle(
    session: &Session,
    shape: Shape,
    limit: f64,
) -> Result<(u64, Option<Vec<f64>>), BoxError> {
    let mut plate = StencilLoop::new("plate", shape, Plate { shape, change: 0.0 });
    let change = |plate: &mut Plate| std::mem::take(&mut plate.change);
    // Rank 0 is asked of the largest change of all ranks.
    let end =
        plate.run_until(session, Until::at_most(MOST).every(STEPS), change, |change| change <= limit)?;
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
    fn settles_as_in_the_serial_program() {
        let (shape, limit) = (Shape { rows: 22, columns: 15 }, 1e-3);
        let (steps, plate) = serial(shape, limit);
        assert!(steps > STEPS);
        let at = |row: usize, column: usize| plate[row * shape.columns + column];
        assert!(
            at(5, 3) == 0.0 && at(6, 4) == 0.0 && at(4, 3) > 0.0 && at(7, 3) > 0.0,
            "rows 5 and 6 are cold"
        );
        for ranks in 1..=3 {
            // What the first rank returns.
            let settled = armature::run(&Config::new().ranks(ranks), |session| settle(session, shape, limit));
            assert_eq!(settled.unwrap(), (steps, Some(plate.clone())));
        }
    }
}

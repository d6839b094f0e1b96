//! The third program of the tutorial (docs/tutorial.md), a stencil: each rank has some rows of one large plate.
//!
//! ```sh
//! mpirun -n 4 target/release/tutorial-stencil
//! ```

use armature::loops::{OldGrid, Shape, Stencil, StencilLoop};
use armature::{BoxError, Session};

/// A cold plate whose upper edge is hot.
struct Plate {
    diffusivity: f64,
}

impl Stencil for Plate {
    type Value = f64;

    fn row(&mut self, index: u64, values: &mut [f64]) -> Result<(), BoxError> {
        values.fill(if index == 0 { 1.0 } else { 0.0 });
        Ok(())
    }

    fn step(&mut self, old: OldGrid<'_, f64>, new: &mut [f64]) -> Result<(), BoxError> {
        let (old, width) = (old.values, old.width);
        for (row, new) in (1..).zip(new.chunks_exact_mut(width)) {
            for (i, new) in (row * width..).zip(new).skip(1).take(width - 2) {
                let around = old[i - width] + old[i - 1] + old[i + 1] + old[i + width];
                *new = old[i] + self.diffusivity * (around - 4.0 * old[i]);
            }
        }
        Ok(())
    }
}

/// Returns the temperatures after this number of steps, row after row, on rank 0.
fn heat(session: &mut Session, shape: Shape, steps: u64) -> Result<Option<Vec<f64>>, BoxError> {
    let mut plate = StencilLoop::new("plate", shape, Plate { diffusivity: 0.2 });
    if let Some(summary) = plate.run(session, steps)?.summary() {
        eprintln!("{summary}");
    }
    Ok(plate.collect(session)?)
}

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        let shape = Shape { rows: 300, columns: 300 };
        if let Some(plate) = heat(session, shape, 2_000)? {
            for row in [10, 40, 70] {
                println!("row {row}: {:.4} in the middle", plate[row * shape.columns + shape.columns / 2]);
            }
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    #[test]
    fn plate_of_the_tutorial_equals_serial_plate_on_1_2_and_4_ranks() {
        const ROWS: usize = 23;
        const COLUMNS: usize = 17;
        let mut serial = [[0.0; COLUMNS]; ROWS];
        serial[0].fill(1.0);
        for _ in 0..60 {
            let old = serial;
            for row in (1..).take(ROWS - 2) {
                for column in (1..).take(COLUMNS - 2) {
                    let around = old[row - 1][column]
                        + old[row][column - 1]
                        + old[row][column + 1]
                        + old[row + 1][column];
                    serial[row][column] = old[row][column] + 0.2 * (around - 4.0 * old[row][column]);
                }
            }
        }
        let shape = Shape { rows: ROWS as u64, columns: COLUMNS };
        for ranks in [1, 2, 4] {
            let plate = armature::run(&Config::new().ranks(ranks), |session| heat(session, shape, 60));
            assert_eq!(plate.unwrap(), Some(serial.concat()));
        }
    }
}

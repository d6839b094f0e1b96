//! The first program of the tutorial (docs/tutorial.md), a farm: each material of a plate is a task.
//!
//! ```sh
//! mpirun -n 4 target/release/tutorial-farm
//! ```

use armature::farm::Farm;
use armature::{BoxError, Session};

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        if let Some(steps) = compare_materials(session, 49)? {
            for (number, steps) in (1..).zip(&steps).step_by(8) {
                println!("material {number:2}: warm after {steps:5} steps");
            }
        }
        Ok(())
    })
}

/// Returns the number of steps for each of 40 materials, on rank 0. The plates have `side` rows and columns.
fn compare_materials(session: &mut Session, side: usize) -> Result<Option<Vec<u32>>, BoxError> {
    let mut farm = Farm::new("materials", move |diffusivity| steps_until_warm(side, diffusivity));
    let outcome = farm.collect(session, (1..=40).map(|number| 0.006 * f64::from(number)))?;
    if let Some(summary) = outcome.summary() {
        eprintln!("{summary}");
    }
    Ok(outcome.on_root())
}

/// Heats a cold plate from its edges until its middle is half as warm as they are. Returns the number of steps.
fn steps_until_warm(side: usize, diffusivity: f64) -> u32 {
    let (mut plate, mut steps) = (vec![0.0; side * side], 0);
    while plate[side * side / 2] < 0.5 {
        plate = step(&plate, side, diffusivity, 1.0);
        steps += 1;
    }
    steps
}

/// Returns the plate one time step later. Its edges have the temperature `surface`.
fn step(old: &[f64], side: usize, diffusivity: f64, surface: f64) -> Vec<f64> {
    let mut new = vec![surface; side * side];
    for row in 1..side - 1 {
        for i in (row * side + 1..).take(side - 2) {
            let around = old[i - side] + old[i - 1] + old[i + 1] + old[i + side];
            new[i] = old[i] + diffusivity * (around - 4.0 * old[i]);
        }
    }
    new
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    #[test]
    fn steps_of_materials_equal_serial_steps_on_1_2_and_4_ranks() {
        let serial: Vec<u32> = (1..=40).map(|n| steps_until_warm(13, 0.006 * f64::from(n))).collect();
        assert!(serial.is_sorted_by(|a, b| a > b), "{serial:?}");
        for ranks in [1, 2, 4] {
            let steps = armature::run(&Config::new().ranks(ranks), |session| compare_materials(session, 13));
            assert_eq!(steps.unwrap(), Some(serial.clone()));
        }
    }
}

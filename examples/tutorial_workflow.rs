//! The fourth program of the tutorial (docs/tutorial.md), a workflow: two plates are heated and cooled.
//!
//! ```sh
//! mpirun -n 4 target/release/tutorial-workflow
//! ```

use armature::workflow::Workflow;
use armature::{BoxError, Session};

/// Alloys with their diffusivities.
const ALLOYS: [(&str, f64); 2] = [("steel", 0.08), ("bronze", 0.2)];
/// Baths, with the fraction of its temperature that the surface of a plate loses in a step.
const BATHS: [(&str, f64); 3] = [("air", 0.0005), ("oil", 0.002), ("water", 0.05)];

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        if let Some(report) = cool_all(session, 61)? {
            print!("{report}");
        }
        Ok(())
    })
}

/// Returns a line about each alloy in each bath, on rank 0. The plates have `side` rows and columns.
fn cool_all(session: &mut Session, side: usize) -> Result<Option<String>, BoxError> {
    let (mut flow, mut lines) = (Workflow::new("quench"), Vec::new());
    for (alloy, diffusivity) in ALLOYS {
        let hot = flow.task(&format!("heat {alloy}"), move || heat(side, diffusivity));
        for (bath, loss) in BATHS {
            let name = format!("{alloy} in {bath}");
            let line =
                flow.after(&name.clone(), &hot, move |plate| cool(&name, plate, side, diffusivity, loss));
            lines.push(line);
        }
    }
    let report = flow.after("report", &lines, |lines| lines.concat());
    let Some((mut results, summary)) = flow.collect(session)?.into_parts() else { return Ok(None) };
    eprintln!("{summary}");
    Ok(Some(results.take(&report)?))
}

/// Cools a plate until its middle has half the temperature of the furnace. The strain is the largest difference
/// between the surface and the cell below it.
fn cool(name: &str, mut plate: Vec<f64>, side: usize, diffusivity: f64, loss: f64) -> String {
    let (mut steps, mut strain, mut surface) = (0, 0.0_f64, 1.0_f64);
    while plate[side * side / 2] > 0.5 {
        surface *= 1.0 - loss;
        plate = step(&plate, side, diffusivity, surface);
        strain = strain.max(plate[side + side / 2] - surface);
        steps += 1;
    }
    format!("{name}: {steps} steps, strain {strain:.3}\n")
}

/// Heats a cold plate until its middle has nine tenths of the temperature of its edges.
fn heat(side: usize, diffusivity: f64) -> Vec<f64> {
    let mut plate = vec![0.0; side * side];
    while plate[side * side / 2] < 0.9 {
        plate = step(&plate, side, diffusivity, 1.0);
    }
    plate
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
    fn report_equals_serial_report_on_1_2_and_4_ranks() {
        let mut serial = String::new();
        for (alloy, diffusivity) in ALLOYS {
            let hot = heat(15, diffusivity);
            for (bath, loss) in BATHS {
                serial += &cool(&format!("{alloy} in {bath}"), hot.clone(), 15, diffusivity, loss);
            }
        }
        assert_eq!(serial.lines().count(), 6);
        for ranks in [1, 2, 4] {
            let report = armature::run(&Config::new().ranks(ranks), |session| cool_all(session, 15));
            assert_eq!(report.unwrap(), Some(serial.clone()));
        }
    }
}

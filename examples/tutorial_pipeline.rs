//! The second program of the tutorial (docs/tutorial.md), a pipeline: the frames of a camera are smoothed and searched.
//!
//! ```sh
//! mpirun -n 4 target/release/tutorial-pipeline
//! ```

use armature::pipeline::Pipeline;
use armature::{BoxError, Session};

/// Number of rows and of columns of a frame.
const SIDE: usize = 64;

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        for (number, (row, column)) in follow(session, 600)?.iter().enumerate().step_by(120) {
            println!("frame {number:3}: hottest at row {row}, column {column}");
        }
        Ok(())
    })
}

/// Returns the hottest position of each frame on rank 0, and an empty vector on the other ranks.
fn follow(session: &mut Session, frames: usize) -> Result<Vec<(usize, usize)>, BoxError> {
    let mut path = Vec::new();
    let outcome = Pipeline::source("camera", move || (0..frames).map(frame))
        .map("smooth", smooth)
        .map("locate", |frame| hottest(&frame))
        .for_each(session, "follow", |position| path.push(position))?;
    if let Some(summary) = outcome.summary() {
        eprintln!("{summary}");
    }
    Ok(path)
}

/// Removes noise from a frame: if heat flows for a short time, small differences disappear first.
fn smooth(frame: Vec<f64>) -> Vec<f64> {
    (0..150).fold(frame, |frame, _| step(&frame, SIDE, 0.05, 0.0))
}

/// Returns the picture of a torch that moves over the plate, with noise.
fn frame(number: usize) -> Vec<f64> {
    let (row, column) = (20 + number / 30, 12 + number / 15);
    let value = |i: usize| {
        let distance = (i / SIDE).abs_diff(row).pow(2) + (i % SIDE).abs_diff(column).pow(2);
        let noise = ((number * SIDE * SIDE + i + 1) as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 44;
        40.0 / (40 + distance) as f64 + noise as f64 / 1_048_576.0
    };
    (0..SIDE * SIDE).map(value).collect()
}

/// Returns row and column of the hottest cell.
fn hottest(frame: &[f64]) -> (usize, usize) {
    let hottest = (0..frame.len()).max_by(|a, b| frame[*a].total_cmp(&frame[*b])).unwrap_or(0);
    (hottest / SIDE, hottest % SIDE)
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
    fn positions_in_frames_equal_serial_positions_on_1_2_and_4_ranks() {
        let serial: Vec<_> = (0..30).map(|number| hottest(&smooth(frame(number)))).collect();
        assert!(serial[0].0.abs_diff(20) < 4 && serial[0].1.abs_diff(12) < 4, "{serial:?}");
        for ranks in [1, 2, 4] {
            let path = armature::run(&Config::new().ranks(ranks), |session| follow(session, 30));
            assert_eq!(path.unwrap(), serial);
        }
    }
}

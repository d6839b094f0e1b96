//! Pi: the area under 4 / (1 + x²) between 0 and 1. A parallel loop over slices of the area adds up the areas of the
//! slices.
//!
//! ```sh
//! mpirun -n 4 target/release/pi            # or, without MPI: target/release/pi --ranks 4
//! ```

use armature::loops::ParallelFor;
use armature::{BoxError, Session};

/// Number of slices of the area, one for each index of the loop.
const SLICES: u64 = 1_000;

fn main() -> std::process::ExitCode {
    armature::main(|session| {
        let pi = pi(session, 1_000_000)?;
        if session.is_root() {
            println!("{pi:.12}");
        }
        Ok(())
    })
}

/// Returns pi on every rank, computed from `points` points in each slice.
pub(crate) fn pi(session: &mut Session, points: u64) -> Result<f64, BoxError> {
    // The areas are added in the order of the slices, so that the sum is bit-identical on any number of ranks.
    let slices = ParallelFor::new("pi", 0..SLICES);
    Ok(slices.fold_in_order(session, |number| slice(number, points), 0.0, |sum, area| sum + area)?)
}

fn slice(number: u64, points: u64) -> f64 {
    let step = 1.0 / (SLICES * points) as f64;
    let height = |point| {
        let x = (point as f64 + 0.5) * step;
        4.0 / (1.0 + x * x)
    };
    (number * points..(number + 1) * points).map(height).sum::<f64>() * step
}

#[cfg(test)]
mod tests {
    use armature::Config;

    use super::*;

    #[test]
    fn pi_equals_serial_sum_on_1_to_3_ranks() {
        let serial = (0..SLICES).map(|number| slice(number, 50)).fold(0.0, |sum, area| sum + area);
        assert!((serial - std::f64::consts::PI).abs() < 1e-9);
        for ranks in 1..=3 {
            assert_eq!(
                armature::run(&Config::new().ranks(ranks), |session| pi(session, 50)).unwrap(),
                serial
            );
        }
    }
}

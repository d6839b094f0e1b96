//! Methods to spend the time of a task.

use armature_apps::spin;
use std::time::Duration;

/// Method by which tasks spend their time. Rank 0 determines the amount of work in units of the method, so that a slower rank takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkMethod {
    /// Arithmetic. The unit is one operation of [`spin::spin`].
    Spin,
    /// Sleeping, which takes the same time on every rank and no CPU time. The unit is one second.
    Sleep,
    /// Declared work on a simulated host. The unit is one floating-point operation.
    Declare,
}

/// Speed of the reference processor to which declared work refers: 10⁹ floating-point operations per second.
const FLOPS: f64 = 1e9;

impl WorkMethod {
    /// Returns the number of units per second. For arithmetic, it is measured on this processor, which takes some tenths of a second.
    pub fn speed(self) -> f64 {
        match self {
            WorkMethod::Spin => spin::speed(),
            WorkMethod::Sleep => 1.0,
            WorkMethod::Declare => FLOPS,
        }
    }

    /// Executes `units` units of work. For the method [`Declare`](WorkMethod::Declare), only calls `declare` with the number of units.
    pub fn perform(self, units: f64, declare: impl FnOnce(f64)) {
        match self {
            WorkMethod::Spin => spin::spin(units as u64),
            WorkMethod::Sleep => std::thread::sleep(Duration::try_from_secs_f64(units).unwrap_or_default()),
            WorkMethod::Declare => declare(units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn synthetic_work_takes_the_requested_time() {
        for work_method in [WorkMethod::Spin, WorkMethod::Sleep] {
            let units = 0.01 * work_method.speed();
            let timed = |_| {
                let start = Instant::now();
                work_method.perform(units, |_| panic!("nothing is declared on a real machine"));
                start.elapsed().as_secs_f64()
            };
            // The speed is the fastest of several measurements, so that work may take longer than expected, but hardly shorter.
            let shortest = (0..5).map(timed).fold(f64::INFINITY, f64::min);
            assert!(shortest > 0.005, "{work_method:?}: {shortest}");
        }
    }

    #[test]
    fn synthetic_work_is_declared_to_the_simulator() {
        let mut declared = 0.0;
        WorkMethod::Declare.perform(0.25 * WorkMethod::Declare.speed(), |flops| declared = flops);
        assert_eq!(declared, 0.25e9);
    }
}

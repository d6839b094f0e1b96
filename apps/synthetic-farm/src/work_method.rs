//! Methods by which a synthetic task spends its time.

use armature_apps::spin;
use std::time::Duration;

/// Method by which tasks spend their time. Rank 0 determines the amount of work of a task in units of the method, so that a slower rank takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkMethod {
    /// Arithmetic. The unit of work is one operation of [`spin::spin`].
    Spin,
    /// Sleeping, which takes the same time on every rank and no CPU time. The unit of work is one second.
    Sleep,
    /// Work that is declared to the simulator. The unit of work is one floating-point operation.
    Declare,
}

/// Speed of the reference processor to which work declared to the simulator refers: 10⁹ floating-point operations per second.
const FLOPS: f64 = 1e9;

impl WorkMethod {
    /// Returns the number of units of work per second. For arithmetic, the speed of this processor is measured, which takes some tenths of a second.
    pub fn speed(self) -> f64 {
        match self {
            WorkMethod::Spin => spin::speed(),
            WorkMethod::Sleep => 1.0,
            WorkMethod::Declare => FLOPS,
        }
    }

    /// Executes `units` units of work. For the method [`Declare`](WorkMethod::Declare), only calls `declare` with the number of units.
    pub fn run(self, units: f64, declare: impl FnOnce(f64)) {
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
                work_method.run(units, |_| panic!("nothing is declared on a real machine"));
                start.elapsed().as_secs_f64()
            };
            // The speed is the highest of several measurements. Therefore work may take longer than computed from the speed, but hardly shorter.
            let shortest = (0..5).map(timed).fold(f64::INFINITY, f64::min);
            assert!(shortest > 0.005, "{work_method:?}: {shortest}");
        }
    }

    #[test]
    fn synthetic_work_is_declared_to_the_simulator() {
        let mut declared = 0.0;
        WorkMethod::Declare.run(0.25 * WorkMethod::Declare.speed(), |flops| declared = flops);
        assert_eq!(declared, 0.25e9);
    }
}

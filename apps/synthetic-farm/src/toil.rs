//! How the time of a task is spent.

use armature_apps::spin;
use std::time::Duration;

/// How tasks take their time. Rank 0 says how much there is to do, in units of the kind's own, so a rank that is slower
/// takes longer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Toil {
    /// Arithmetic; the unit is an operation of [`spin::spin`].
    Spin,
    /// Waiting, which takes the same time everywhere and no processor; the unit is a second.
    Sleep,
    /// Declared work on a simulated host; the unit is a floating-point operation.
    Declare,
}

/// Floating-point operations that count as a second of simulated work.
const FLOPS: f64 = 1e9;

impl Toil {
    /// Units in a second; for arithmetic they are measured on this processor, which takes some tenths of a second.
    pub fn speed(self) -> f64 {
        match self {
            Toil::Spin => spin::speed(),
            Toil::Sleep => 1.0,
            Toil::Declare => FLOPS,
        }
    }

    /// Does so many units; `declare` is for work that is only declared.
    pub fn take(self, units: f64, declare: impl FnOnce(f64)) {
        match self {
            Toil::Spin => spin::spin(units as u64),
            Toil::Sleep => std::thread::sleep(Duration::try_from_secs_f64(units).unwrap_or_default()),
            Toil::Declare => declare(units),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn work_takes_its_time() {
        for toil in [Toil::Spin, Toil::Sleep] {
            let units = 0.01 * toil.speed();
            let timed = |_| {
                let start = Instant::now();
                toil.take(units, |_| panic!("nothing is declared on a real machine"));
                start.elapsed().as_secs_f64()
            };
            // The speed is the fastest of several, so work may take longer but hardly shorter.
            let shortest = (0..5).map(timed).fold(f64::INFINITY, f64::min);
            assert!(shortest > 0.005, "{toil:?}: {shortest}");
        }
    }

    #[test]
    fn simulated_work_is_declared() {
        let mut declared = 0.0;
        Toil::Declare.take(0.25 * Toil::Declare.speed(), |flops| declared = flops);
        assert_eq!(declared, 0.25e9);
    }
}

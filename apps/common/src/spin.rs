//! Synthetic work that only takes time.

use rustix::time::{ClockId, clock_gettime};
use std::hint::black_box;

/// Number of operations of one measurement of the processor's speed, which takes about 10 ms.
const SAMPLE: u64 = 20_000_000;
/// Number of measurements of the processor's speed. The highest measured speed counts, because other programs can only slow a measurement down (they
/// use the same caches).
const ROUNDS: usize = 9;

/// Executes `operations` integer operations, a dependency chain that compilers cannot shorten and caches cannot speed up. The framework measures the
/// speed of ranks with the same chain. Therefore one operation is one unit of work in its plans.
pub fn spin(operations: u64) {
    let mut x = 0x9e37_79b9_7f4a_7c15_u64;
    for _ in 0..operations / 3 {
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
    }
    black_box(x);
}

/// Returns the number of [`spin`] operations per second of CPU time on this processor.
pub fn speed() -> f64 {
    let measure = || {
        let start = cpu_seconds();
        spin(black_box(SAMPLE));
        cpu_seconds() - start
    };
    let shortest = (0..ROUNDS).map(|_| measure()).fold(f64::INFINITY, f64::min);
    SAMPLE as f64 / shortest.max(1e-9)
}

fn cpu_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + 1e-9 * time.tv_nsec as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Instant;

    #[test]
    fn spin_time_is_proportional_to_the_work() {
        let timed = |operations| {
            let start = Instant::now();
            spin(black_box(operations));
            start.elapsed().as_secs_f64()
        };
        let shortest = |operations| (0..5).map(|_| timed(operations)).fold(f64::INFINITY, f64::min);
        assert!(shortest(3_000_000) > 3.0 * shortest(300_000));
        assert!(speed() > 1e6);
    }
}

//! Search for METG, the minimum effective task granularity of a program.

use crate::RunResult;

/// Efficiency at METG(50 %).
const EFFICIENCY: f64 = 0.5;
/// Number of times that the interval between an insufficient and a sufficient length is divided. The lengths are then 4.4 % apart.
const BISECTIONS: usize = 4;
/// Task length in seconds at which the search ends without success.
const LONGEST: f64 = 0.02;

/// Returns METG(50 %) in seconds: the smallest mean task length for which `efficiency` returns at least a half. Infinity, if no length up to 20 ms is
/// sufficient.
///
/// From `start` on, the length is doubled until it is sufficient, and then bisected geometrically. Short runs come first because long ones are
/// disturbed more often. A length is insufficient if all of `tries` runs are, because a run can be disturbed, but not helped.
///
/// # Errors
/// Errors of `efficiency`.
pub fn metg(start: f64, tries: usize, mut efficiency: impl FnMut(f64) -> RunResult<f64>) -> RunResult<f64> {
    let mut suffices = |length| -> RunResult<bool> {
        for _ in 0..tries.max(1) {
            if efficiency(length)? >= EFFICIENCY {
                return Ok(true);
            }
        }
        Ok(false)
    };
    let mut sufficient = start;
    while !suffices(sufficient)? {
        sufficient *= 2.0;
        if sufficient > LONGEST {
            return Ok(f64::INFINITY);
        }
    }
    if sufficient == start {
        return Ok(start);
    }
    let mut insufficient = sufficient / 2.0;
    for _ in 0..BISECTIONS {
        let middle = (sufficient * insufficient).sqrt();
        if suffices(middle)? {
            sufficient = middle;
        } else {
            insufficient = middle;
        }
    }
    Ok(sufficient)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metg_of_a_constant_overhead_is_the_overhead() {
        for (overhead, start) in [(3e-6, 1e-8), (7e-4, 1e-4)] {
            let found = metg(start, 1, |length| Ok(length / (length + overhead))).unwrap();
            assert!((1.0..1.05).contains(&(found / overhead)), "{found}");
        }
    }

    #[test]
    fn disturbed_runs_are_repeated() {
        let mut run = 0;
        let found = metg(1e-7, 3, |length| {
            run += 1;
            Ok(if run % 3 == 0 { length / (length + 1e-5) } else { 0.1 })
        });
        assert!((1.0..1.05).contains(&(found.unwrap() / 1e-5)));
    }

    #[test]
    fn search_ends_at_the_limits() {
        assert_eq!(metg(1e-4, 1, |_| Ok(0.1)).unwrap(), f64::INFINITY);
        assert_eq!(metg(1e-4, 1, |_| Ok(1.0)).unwrap(), 1e-4);
    }
}

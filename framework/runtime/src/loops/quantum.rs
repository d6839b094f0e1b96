//! Estimate of the time slice of a process (quantum of the operating system's scheduler), from calls of user code that took longer than their CPU
//! time.

/// Shortest time, in seconds, for which a process must be off its core so that this counts as a time slice of another process. A shorter difference
/// between elapsed time and CPU time is due to an interrupt or to the granularity of the clock.
const SHORTEST: f64 = 0.5e-3;
/// Smallest quantum (time slice of a process) in seconds, because Linux has no shorter time slices. It is also the estimate until another process has
/// had the rank's core. With a smaller quantum, the computing rates of ranks would be measured over too short a time.
const LEAST: f64 = 3e-3;
/// Largest quantum (time slice of a process) in seconds, that of the machines in the paper (Siegell and Steenkiste 1997). A longer time in which
/// other processes had the core counts as several time slices.
const MOST: f64 = 0.1;
/// Time constant with which earlier time slices lose weight in the estimate, in seconds in which other processes had the core: long enough for some
/// pauses of a CPU quota, short enough to forget a load that has ended.
const MEMORY: f64 = 1.0;

/// Estimate of the scheduler's quantum from the times for which other processes had a rank's core: the mean of these times, weighted by their length.
/// If a rank meets both short time slices of other processes and the long pauses of a CPU quota, the long pauses thus determine the estimate, and the
/// computing rates of ranks are measured over enough time to average them out.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QuantumEstimate {
    /// Sum of the recent times, in seconds, in which other processes had the rank's core; older ones have less weight. `squares` sums their squares.
    off: f64,
    squares: f64,
}

impl QuantumEstimate {
    /// Adds a block (call of user code) that took `gap` seconds longer than its CPU time. Returns the part of `gap` in which other processes had the
    /// core.
    pub(super) fn add(&mut self, gap: f64) -> f64 {
        if gap.is_nan() || gap < SHORTEST {
            return 0.0;
        }
        let turn = gap.min(MOST);
        let kept = (-turn / MEMORY).exp();
        self.off = kept * self.off + turn;
        self.squares = kept * self.squares + turn * turn;
        gap
    }

    pub(super) fn seconds(&self) -> f64 {
        if self.off > 0.0 { (self.squares / self.off).clamp(LEAST, MOST) } else { LEAST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_slices_of_another_process_are_detected() {
        let mut quantum = QuantumEstimate::default();
        assert_eq!(quantum.seconds(), LEAST);
        assert_eq!((quantum.add(1e-5), quantum.add(-1.0), quantum.add(f64::NAN)), (0.0, 0.0, 0.0));
        assert_eq!(quantum.seconds(), LEAST, "interrupts are not counted");
        for _ in 0..50 {
            assert_eq!(quantum.add(0.02), 0.02);
        }
        assert!((quantum.seconds() - 0.02).abs() < 1e-12);
        assert_eq!(quantum.add(5.0), 5.0, "all of it counts as time off the core, but not as one turn");
        assert!(quantum.seconds() < 0.05);
    }

    #[test]
    fn long_pauses_count_among_many_short_slices() {
        let mut quantum = QuantumEstimate::default();
        for _ in 0..5 {
            (0..20).for_each(|_| _ = quantum.add(1e-3));
            quantum.add(0.08);
        }
        assert!(quantum.seconds() > 0.06, "{quantum:?}");
        (0..8_000).for_each(|_| _ = quantum.add(1e-3));
        assert_eq!(quantum.seconds(), LEAST, "the pauses are over");
    }
}

//! How long other processes have the core at a time, from blocks that took longer than their computing.

/// A shorter gap is an interrupt, or a clock's grain (s).
const SHORTEST: f64 = 0.5e-3;
/// What is taken for the scheduler's quantum while nothing was seen of it (s).
const USUAL: f64 = 4e-3;
/// The quantum is taken to be no shorter than this (s) …
const LEAST: f64 = 3e-3;
/// … and no longer: the paper's workers had 0.1 s. A longer gap is several turns.
const MOST: f64 = 0.1;
/// So much time off the core is remembered (s).
const MEMORY: f64 = 1.0;

/// An estimate of the scheduler's quantum, from the times for which a rank was off its core: the length of the turn in which a
/// moment off the core is likely to lie. Where a rank meets short turns of other processes and the long pauses of a quota,
/// the long ones decide how much time evens them out, however many short ones there are.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct QuantumEstimate {
    /// Seconds off the core, the latest ones.
    off: f64,
    /// The same, each turn times its length.
    squares: f64,
}

impl QuantumEstimate {
    /// A block took so many seconds longer than its computing. Returns the part that counts as time off the core.
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

    /// The quantum in seconds.
    pub(super) fn seconds(&self) -> f64 {
        if self.off > 0.0 { (self.squares / self.off).clamp(LEAST, MOST) } else { USUAL }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_another_process_are_seen() {
        let mut quantum = QuantumEstimate::default();
        assert_eq!(quantum.seconds(), USUAL);
        assert_eq!((quantum.add(1e-5), quantum.add(-1.0), quantum.add(f64::NAN)), (0.0, 0.0, 0.0));
        assert_eq!(quantum.seconds(), USUAL, "interrupts say nothing");
        for _ in 0..50 {
            assert_eq!(quantum.add(0.02), 0.02);
        }
        assert!((quantum.seconds() - 0.02).abs() < 1e-12);
        assert_eq!(quantum.add(5.0), 5.0, "all of it counts as time off the core, but not as one turn");
        assert!(quantum.seconds() < 0.05);
    }

    #[test]
    fn long_pauses_count_though_short_turns_are_many() {
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

//! How long other processes have the core at a time, from blocks that took longer than their computing.

/// Seconds below which a gap is an interrupt, or a clock's grain, and no turn of another process.
const SHORTEST: f64 = 0.5e-3;
/// Seconds below which no quantum is taken to be, as Linux gives no shorter turns, and which are taken while nothing was seen of it; with less, rates are of too short a time …
const LEAST: f64 = 3e-3;
/// … and above which none is: the paper's machines had 0.1 s. A longer gap is several turns.
const MOST: f64 = 0.1;
/// Seconds off the core until a turn counts for 1/e: long enough for some pauses of a quota, short enough to forget a load that has gone.
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
    /// A block took `gap` seconds longer than its computing. Returns the part that counts as time off the core.
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
        if self.off > 0.0 { (self.squares / self.off).clamp(LEAST, MOST) } else { LEAST }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_another_process_are_seen() {
        let mut quantum = QuantumEstimate::default();
        assert_eq!(quantum.seconds(), LEAST);
        assert_eq!((quantum.add(1e-5), quantum.add(-1.0), quantum.add(f64::NAN)), (0.0, 0.0, 0.0));
        assert_eq!(quantum.seconds(), LEAST, "interrupts say nothing");
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

//! How long other processes have the core at a time, from blocks that took longer than their computing.

/// A shorter gap is an interrupt, or a clock's grain (s).
const SHORTEST: f64 = 0.5e-3;
/// What is taken for the scheduler's quantum while nothing was seen of it (s).
const USUAL: f64 = 4e-3;
/// The quantum is taken to be no shorter than this (s) …
const LEAST: f64 = 3e-3;
/// … and no longer: the paper's machines had 0.1 s. A longer gap is several turns.
const MOST: f64 = 0.1;
/// The part of the estimate that a new gap replaces.
const SHARE: f64 = 0.125;

/// An estimate of the scheduler's quantum, from the times for which a rank was off its core.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Gaps {
    mean: Option<f64>,
}

impl Gaps {
    /// A block took so many seconds longer than its computing. Returns the part that counts as time off the core.
    pub(super) fn add(&mut self, gap: f64) -> f64 {
        if gap.is_nan() || gap < SHORTEST {
            return 0.0;
        }
        let turn = gap.min(MOST);
        self.mean = Some(self.mean.map_or(turn, |mean| mean + SHARE * (turn - mean)));
        gap
    }

    /// The quantum in seconds.
    pub(super) fn quantum(&self) -> f64 {
        self.mean.unwrap_or(USUAL).clamp(LEAST, MOST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_of_another_process_are_seen() {
        let mut gaps = Gaps::default();
        assert_eq!(gaps.quantum(), USUAL);
        assert_eq!((gaps.add(1e-5), gaps.add(-1.0), gaps.add(f64::NAN)), (0.0, 0.0, 0.0));
        assert_eq!(gaps.quantum(), USUAL, "interrupts say nothing");
        for _ in 0..50 {
            assert_eq!(gaps.add(0.02), 0.02);
        }
        assert!((gaps.quantum() - 0.02).abs() < 1e-12);
        assert_eq!(gaps.add(5.0), 5.0, "all of it counts as time off the core, but not as one turn");
        assert!(gaps.quantum() < 0.04);
    }
}

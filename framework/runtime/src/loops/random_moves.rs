//! Movements drawn at random, for tests.

use armature_planner::loops::distribute;

/// Seeded numbers: SplitMix64 of Steele, Lea and Flood (2014).
#[derive(Debug)]
pub(super) struct SplitMix64(pub(super) u64);

impl SplitMix64 {
    /// Any number.
    pub(super) fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Random shares of `units` units, some far smaller than others, at least one each where there are enough.
    pub(super) fn shares(&mut self, units: u64, ranks: usize) -> Vec<u64> {
        let shares: Vec<f64> =
            (0..ranks).map(|_| ((self.draw() >> 11) as f64 / (1_u64 << 53) as f64).powi(3) + 1e-6).collect();
        distribute(units, &shares, 1)
    }

    /// Below `end`.
    #[cfg(test)]
    pub(super) fn below(&mut self, end: usize) -> usize {
        (self.draw() % end as u64) as usize
    }
}

//! Pseudo-random numbers, which are the same in every run.

/// Pseudo-random number generator SplitMix64 (Steele, Lea and Flood 2014).
///
/// ```
/// use armature_planner::random::Random;
///
/// let (mut one, mut same) = (Random::new(7), Random::new(7));
/// assert_eq!(one.draw(), same.draw());
/// assert!((0.0..1.0).contains(&one.uniform()) && one.below(10) < 10);
/// ```
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator whose numbers depend only on `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Returns the next random number, uniform over all `u64` values.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// Returns a random number below `bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: usize) -> usize {
        self.draw().checked_rem(bound as u64).unwrap_or(0) as usize
    }

    /// Returns a random number uniform between 0 and 1, both excluded.
    pub fn uniform(&mut self) -> f64 {
        // The result is the middle of one of 2^53 equal intervals, so it is never 0 or 1.
        ((self.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// Returns a random number of the standard normal distribution, by the method of Box and Muller.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// Returns a random positive time from a distribution with the given mean and standard deviation: a gamma distribution in the approximation of
    /// Wilson and Hilferty, or a log-normal distribution if the deviation is larger than the mean.
    pub fn time(&mut self, mean: f64, deviation: f64) -> f64 {
        let ratio = deviation / mean;
        if ratio.is_nan() || ratio <= 0.0 {
            return mean;
        }
        let z = self.normal();
        let factor = if ratio <= 1.0 {
            let ninth = ratio * ratio / 9.0;
            (1.0 - ninth + z * ninth.sqrt()).max(0.0).powi(3)
        } else {
            let variance = ratio.mul_add(ratio, 1.0).ln();
            (z * variance.sqrt() - 0.5 * variance).exp()
        };
        mean * factor
    }
}

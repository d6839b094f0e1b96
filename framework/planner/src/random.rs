//! Numbers that look random and are the same in every run.

/// A series of numbers, SplitMix64 of Steele, Lea and Flood (2014).
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
    /// The series of this seed.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// Any number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }

    /// A number below `bound`; 0 if there is none.
    pub fn below(&mut self, bound: usize) -> usize {
        self.draw().checked_rem(bound as u64).unwrap_or(0) as usize
    }

    /// Between 0 and 1, neither included.
    pub fn uniform(&mut self) -> f64 {
        // The middles of 2^53 intervals.
        ((self.draw() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
    }

    /// A number of the standard normal distribution, by Box and Muller's method.
    pub fn normal(&mut self) -> f64 {
        (-2.0 * self.uniform().ln()).sqrt() * (std::f64::consts::TAU * self.uniform()).cos()
    }

    /// A positive time of this mean and deviation: a gamma distribution by Wilson and Hilferty's approximation, or,
    /// where the deviation is larger than the mean, a logarithmic normal one.
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

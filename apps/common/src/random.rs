//! Seeded random generator whose numbers are equal on every machine and in every version.
//!
//! Data derived from a seed, such as the index and the synthetic scenes of `ferret`, must not change when a dependency is updated.
//! General-purpose generators do not guarantee that.

/// SplitMix64 (Steele, Lea and Flood, "Fast splittable pseudorandom number generators", OOPSLA 2014).
///
/// ```
/// use armature_apps::random::Random;
/// let mut random = Random::new(0);
/// assert_eq!(random.next_u64(), 0xe220_a839_7b1d_cdaf);
/// ```
#[derive(Clone, Debug)]
pub struct Random {
    state: u64,
}

impl Random {
    /// Creates a generator whose sequence depends only on `seed`.
    pub fn new(seed: u64) -> Self {
        Random { state: seed }
    }

    /// Creates one of several independent generators that belong to the same seed. Data whose parts have a generator each can be generated in any
    /// order with the same result. `stream` is the number of the generator.
    pub fn stream(seed: u64, stream: u64) -> Self {
        let mut outer = Random::new(seed);
        let mixed = outer.next_u64() ^ stream.wrapping_mul(0xd134_2543_de82_ef95);
        Random::new(Random::new(mixed).next_u64())
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.state;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a uniform number in `[0, 1)` with 24 random bits.
    pub fn unit(&mut self) -> f32 {
        (self.next_u64() >> 40) as f32 / (1u32 << 24) as f32
    }

    /// Returns a uniform number in `[low, high)`.
    pub fn between(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * self.unit()
    }

    /// Returns a whole number below `bound`.
    ///
    /// # Panics
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: u32) -> u32 {
        assert!(bound > 0, "a random number below zero was requested");
        // Some numbers are more probable than others, by less than 2⁻³², which is negligible here.
        (((self.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// Returns an approximately normal number with mean 0 and variance 1, as the sum of twelve uniform numbers (Irwin–Hall). It is accurate
    /// enough for projections and pixel noise, and needs no logarithms, which differ between mathematics libraries.
    pub fn normal(&mut self) -> f32 {
        (0..12).map(|_| self.unit()).sum::<f32>() - 6.0
    }

    /// Returns a unit vector whose direction is uniform over the circle.
    pub fn direction(&mut self) -> (f32, f32) {
        loop {
            let (x, y) = (self.between(-1.0, 1.0), self.between(-1.0, 1.0));
            let square = x * x + y * y;
            if square > 0.01 && square <= 1.0 {
                let length = square.sqrt();
                return (x / length, y / length);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn random_numbers_have_the_expected_range_mean_and_variance() {
        let mut random = Random::new(7);
        let draws: Vec<f32> = (0..20_000).map(|_| random.normal()).collect();
        let mean = draws.iter().sum::<f32>() / draws.len() as f32;
        let variance = draws.iter().map(|x| (x - mean) * (x - mean)).sum::<f32>() / draws.len() as f32;
        assert!(mean.abs() < 0.03, "mean {mean}");
        assert!((variance - 1.0).abs() < 0.05, "variance {variance}");
        for _ in 0..1000 {
            assert!(random.below(7) < 7);
            assert!((0.0..1.0).contains(&random.unit()));
            let (x, y) = random.direction();
            assert!((x * x + y * y - 1.0).abs() < 1e-5);
        }
    }

    #[test]
    fn random_streams_are_distinct_and_reproducible() {
        let first = |seed, stream| Random::stream(seed, stream).next_u64();
        assert_eq!(first(1, 2), first(1, 2));
        assert_ne!(first(1, 2), first(1, 3));
        assert_ne!(first(1, 2), first(2, 2));
    }
}

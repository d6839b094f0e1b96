//! Rolling hash of Rabin and Karp, which proposes candidates: positions in a text at which a pattern may begin.
//!
//! The hash of `m` bytes is the value, modulo 2⁶⁴ and at a fixed odd number, of the polynomial whose coefficients are the bytes. Moving to the next
//! position takes two multiplications for any `m`: the first byte is subtracted, and the next byte is added. A *fingerprint* is the upper bits of the
//! hash times another odd number, so that each bit of it depends on all bytes.

use crate::patterns::Patterns;

/// Number at which the hash polynomial is evaluated. Any odd number with random-looking bits is suitable; this one is the multiplier of a linear
/// congruential generator (Knuth's MMIX).
const BASE: u64 = 6_364_136_223_846_793_005;
/// Factor between hash and fingerprint: 2⁶⁴ divided by the golden ratio, as in Fibonacci hashing.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Number of parts of a segment whose hashes are computed concurrently, in one thread. Each hash depends on the previous one, so that a single part
/// leaves most of a processor core idle; more than four parts need more registers than a core has.
const LANES: usize = 4;
/// Minimum length of a part, as a multiple of the number of bytes that one hash covers. A shorter part does not pay, because its first hash cannot be
/// derived from another hash.
const MIN_STRETCH_FACTOR: usize = 8;

/// Position at which a pattern may begin, and the number of the bucket (patterns with equal fingerprints) to compare with the text.
pub type Candidate = [u32; 2];

/// Rolling hash: hash of a fixed number of bytes, updated when it moves to the next position of a text.
#[derive(Clone, Debug)]
pub struct Roll {
    length: usize,
    bits: u32,
    /// [`BASE`] to the power of the length. In the step to the next position, the first byte is multiplied by this factor and subtracted.
    leaving: u64,
}

impl Roll {
    pub(crate) fn new(length: usize, bits: u32) -> Self {
        let leaving = (0..length).fold(1, |power: u64, _| power.wrapping_mul(BASE));
        Roll { length, bits, leaving }
    }

    /// Returns the number of bytes that one hash covers.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Returns the number of bits of a fingerprint.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// Returns the fingerprint of the first [`length`](Roll::length) bytes of `bytes`.
    ///
    /// # Panics
    /// Panics if there are fewer than [`length`](Roll::length) bytes.
    pub fn print(&self, bytes: &[u8]) -> u64 {
        self.fold(self.hash(bytes))
    }

    fn hash(&self, bytes: &[u8]) -> u64 {
        bytes[..self.length].iter().fold(0, |hash, &byte| enter(hash, byte))
    }

    #[inline]
    fn fold(&self, hash: u64) -> u64 {
        hash.wrapping_mul(SPREAD) >> (64 - self.bits)
    }

    #[inline]
    fn next(&self, hash: u64, leaving: u8, entering: u8) -> u64 {
        // The subtracted term does not depend on the previous hash. Therefore the processor can compute it in advance.
        hash.wrapping_mul(BASE)
            .wrapping_add(u64::from(entering).wrapping_sub(u64::from(leaving).wrapping_mul(self.leaving)))
    }

    /// Calls `see` with the fingerprint of every position below `end` that has enough bytes after it. The positions form several ascending sequences;
    /// the first argument of `see` is the number of the sequence.
    #[inline]
    fn roll(&self, bytes: &[u8], end: usize, mut see: impl FnMut(usize, usize, u64)) {
        let places = end.min((bytes.len() + 1).saturating_sub(self.length));
        let stretch = if places / LANES >= MIN_STRETCH_FACTOR * self.length { places / LANES } else { 0 };
        if stretch > 0 {
            let mut hashes: [u64; LANES] = std::array::from_fn(|lane| self.hash(&bytes[lane * stretch..]));
            let leaving: [&[u8]; LANES] = std::array::from_fn(|lane| &bytes[lane * stretch..][..stretch - 1]);
            let entering: [&[u8]; LANES] =
                std::array::from_fn(|lane| &bytes[lane * stretch + self.length..][..stretch - 1]);
            for step in 0..stretch - 1 {
                for lane in 0..LANES {
                    see(lane, lane * stretch + step, self.fold(hashes[lane]));
                    hashes[lane] = self.next(hashes[lane], leaving[lane][step], entering[lane][step]);
                }
            }
            for (lane, &hash) in hashes.iter().enumerate() {
                see(lane, (lane + 1) * stretch - 1, self.fold(hash));
            }
        }
        let rest = LANES * stretch;
        if rest < places {
            let mut hash = self.hash(&bytes[rest..]);
            for place in rest..places - 1 {
                see(LANES, place, self.fold(hash));
                hash = self.next(hash, bytes[place], bytes[place + self.length]);
            }
            see(LANES, places - 1, self.fold(hash));
        }
    }
}

#[inline]
fn enter(hash: u64, byte: u8) -> u64 {
    hash.wrapping_mul(BASE).wrapping_add(byte.into())
}

/// Returns the candidates in the first `own` bytes in ascending order: every position at which a pattern begins, and positions whose fingerprint
/// equals that of a pattern by chance.
///
/// ```
/// use rabin_karp::{hash::propose, patterns::Patterns};
/// let patterns = Patterns::new([b"aba".to_vec()], 64)?;
/// let places: Vec<u32> = propose(&patterns, b"ababab", 6).iter().map(|[place, _]| *place).collect();
/// assert_eq!(places, [0, 2]);
/// # Ok::<(), rabin_karp::patterns::PatternError>(())
/// ```
pub fn propose(patterns: &Patterns, bytes: &[u8], own: usize) -> Vec<Candidate> {
    let mut found: [Vec<Candidate>; LANES + 1] = Default::default();
    let roll = patterns.roll();
    match patterns.single_fingerprint() {
        Some(only) => roll.roll(bytes, own, |lane, place, print| {
            if print == only {
                found[lane].push([place as u32, 0]);
            }
        }),
        None => roll.roll(bytes, own, |lane, place, print| {
            if let Some(bucket) = patterns.bucket(print) {
                found[lane].push([place as u32, bucket]);
            }
        }),
    }
    let [mut first, others @ ..] = found;
    others.iter().for_each(|more| first.extend(more));
    first
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn rolling_hash_equals_hash_computed_from_scratch(
            bytes in proptest::collection::vec(any::<u8>(), 0..400),
            length in 1_usize..12,
            bits in 1_u32..=64,
            end in 0_usize..420,
        ) {
            let roll = Roll::new(length, bits);
            let mut seen = Vec::new();
            roll.roll(&bytes, end, |_, place, print| seen.push((place, print)));
            seen.sort_unstable();
            let places = end.min((bytes.len() + 1).saturating_sub(length));
            let expected: Vec<(usize, u64)> = (0..places).map(|place| (place, roll.print(&bytes[place..]))).collect();
            prop_assert_eq!(seen, expected);
        }

        #[test]
        fn candidates_are_ordered_and_include_all_matches(
            bytes in proptest::collection::vec(97_u8..99, 0..300),
            pattern in proptest::collection::vec(97_u8..99, 1..6),
            other in proptest::collection::vec(97_u8..99, 1..6),
            bits in 1_u32..=64,
        ) {
            let patterns = Patterns::new([pattern.clone(), other], bits).unwrap();
            let places: Vec<u32> = propose(&patterns, &bytes, bytes.len()).iter().map(|c| c[0]).collect();
            prop_assert!(places.is_sorted());
            for place in (0..bytes.len()).filter(|&place| bytes[place..].starts_with(&pattern)) {
                prop_assert!(places.contains(&(place as u32)), "{}", place);
            }
        }
    }

    #[test]
    fn wide_fingerprints_have_few_false_candidates() {
        let mut random = armature_apps::random::Random::new(1);
        let text: Vec<u8> = std::iter::repeat_with(|| random.next_u64() as u8).take(100_000).collect();
        let patterns = Patterns::new([text[5_000..5_009].to_vec()], 64).unwrap();
        assert_eq!(propose(&patterns, &text, text.len()), [[5_000, 0]]);
        // In a random text, one in 256 of the 100,000 positions has a given 8-bit fingerprint by chance.
        let patterns = Patterns::new([text[5_000..5_009].to_vec()], 8).unwrap();
        let proposed = propose(&patterns, &text, text.len()).len();
        assert!((250..600).contains(&proposed), "{proposed}");
    }
}

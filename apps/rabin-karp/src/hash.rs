//! The rolling hash, which proposes where a pattern may be.
//!
//! The hash of `m` bytes is the polynomial of these bytes at a fixed odd number, modulo 2⁶⁴. From one place of the text to the
//! next it takes two multiplications, whatever the length: one byte leaves, one comes. A *fingerprint* is the upper bits of the
//! hash times another odd number, so that each of them depends on all bytes.

use crate::patterns::Patterns;

/// Where the polynomial is evaluated. Any odd number whose bits look random will do; this one is a multiplier of
/// linear congruential generators (Knuth's MMIX).
const BASE: u64 = 6_364_136_223_846_793_005;
/// What a hash is multiplied with for its fingerprint: 2⁶⁴ divided by the golden ratio, as in Fibonacci hashing.
const SPREAD: u64 = 0x9e37_79b9_7f4a_7c15;
/// Stretches of a segment that are hashed side by side. The next hash needs the one before, so a single one leaves most of a
/// processor idle; more than four want more registers than it has.
const LANES: usize = 4;
/// Side by side only if a stretch is so many times as long as what is hashed: each begins with a hash from nothing.
const WORTH: usize = 8;

/// A place where a pattern may begin, and the bucket of patterns that it may be.
pub type Candidate = [u32; 2];

/// A hash of so many bytes that can be rolled over a text.
#[derive(Clone, Debug)]
pub struct Roll {
    length: usize,
    bits: u32,
    /// [`BASE`] to the power of the length: what the byte that leaves has been multiplied with.
    leaving: u64,
}

impl Roll {
    pub(crate) fn new(length: usize, bits: u32) -> Self {
        let leaving = (0..length).fold(1, |power: u64, _| power.wrapping_mul(BASE));
        Roll { length, bits, leaving }
    }

    /// Bytes that are hashed.
    pub fn length(&self) -> usize {
        self.length
    }

    /// Bits of a fingerprint.
    pub fn bits(&self) -> u32 {
        self.bits
    }

    /// The fingerprint of the first bytes.
    ///
    /// # Panics
    /// If there are fewer than [`length`](Roll::length).
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
    fn next(&self, hash: u64, leaves: u8, comes: u8) -> u64 {
        // What is subtracted does not wait for the hash before.
        hash.wrapping_mul(BASE)
            .wrapping_add(u64::from(comes).wrapping_sub(u64::from(leaves).wrapping_mul(self.leaving)))
    }

    /// Shows `see` every place below `end` that has as many bytes behind it, with its fingerprint; places come in several
    /// ascending sequences, whose number is the first argument.
    #[inline]
    fn roll(&self, bytes: &[u8], end: usize, mut see: impl FnMut(usize, usize, u64)) {
        let places = end.min((bytes.len() + 1).saturating_sub(self.length));
        let stretch = if places / LANES >= WORTH * self.length { places / LANES } else { 0 };
        if stretch > 0 {
            let mut hashes: [u64; LANES] = std::array::from_fn(|lane| self.hash(&bytes[lane * stretch..]));
            let leaves: [&[u8]; LANES] = std::array::from_fn(|lane| &bytes[lane * stretch..][..stretch - 1]);
            let comes: [&[u8]; LANES] =
                std::array::from_fn(|lane| &bytes[lane * stretch + self.length..][..stretch - 1]);
            for step in 0..stretch - 1 {
                for lane in 0..LANES {
                    see(lane, lane * stretch + step, self.fold(hashes[lane]));
                    hashes[lane] = self.next(hashes[lane], leaves[lane][step], comes[lane][step]);
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

/// Where in the first `own` bytes a pattern may begin, in ascending order: every place where one does, and any others that
/// have the same fingerprint.
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
    match patterns.only_print() {
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
        fn rolled_and_made_from_nothing_are_one(
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
            let made: Vec<(usize, u64)> = (0..places).map(|place| (place, roll.print(&bytes[place..]))).collect();
            prop_assert_eq!(seen, made);
        }

        #[test]
        fn places_are_proposed_in_order_and_all_that_match(
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
    fn a_fingerprint_of_many_bits_hardly_ever_lies() {
        let mut random = armature_apps::random::Random::new(1);
        let text: Vec<u8> = std::iter::repeat_with(|| random.next_u64() as u8).take(100_000).collect();
        let patterns = Patterns::new([text[5_000..5_009].to_vec()], 64).unwrap();
        assert_eq!(propose(&patterns, &text, text.len()), [[5_000, 0]]);
        // 100,000 places, 256 fingerprints.
        let patterns = Patterns::new([text[5_000..5_009].to_vec()], 8).unwrap();
        let proposed = propose(&patterns, &text, text.len()).len();
        assert!((250..600).contains(&proposed), "{proposed}");
    }
}

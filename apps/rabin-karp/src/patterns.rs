//! Set of search patterns with the fingerprints (hash values) by which candidates for matches are found.

use crate::hash::Roll;
use std::fmt;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Maximum length of a pattern in bytes. A rank holds each segment of the text together with as many bytes after it as the longest pattern has.
pub const MAX_PATTERN_LENGTH: usize = 16 << 20;
/// Maximum number of bits of a fingerprint (the part of a hash that is compared).
pub const MAX_BITS: u32 = 64;

/// Set of search patterns with their fingerprints.
///
/// The hash covers as many bytes as the shortest pattern has, so that one pass over the text finds the candidates of all patterns.
#[derive(Clone, Debug)]
pub struct Patterns {
    patterns: Vec<Vec<u8>>,
    roll: Roll,
    longest: usize,
    prints: Vec<u64>,
    /// Indexes of the patterns that have the same fingerprint, for each fingerprint in `prints`.
    buckets: Vec<Vec<u32>>,
    /// Bit set of the upper bits of all fingerprints. One memory access rules out most positions of a text.
    filter: Vec<u64>,
}

/// Number of upper bits of a fingerprint in the bit set that filters positions. A set of 2¹⁵ bits has 4 KiB and stays in the first-level cache.
const FILTER_BITS: u32 = 15;

impl Patterns {
    /// Creates a set of patterns with fingerprints of `bits` bits. Repeated patterns are dropped.
    ///
    /// # Errors
    /// There is no pattern, a pattern is empty or longer than [`MAX_PATTERN_LENGTH`], or `bits` is out of range.
    pub fn new(patterns: impl IntoIterator<Item = Vec<u8>>, bits: u32) -> Result<Self, PatternError> {
        if !(1..=MAX_BITS).contains(&bits) {
            return Err(PatternError::Bits(bits));
        }
        let mut distinct: Vec<Vec<u8>> = Vec::new();
        let mut known = std::collections::HashSet::new();
        for (number, pattern) in patterns.into_iter().enumerate() {
            match pattern.len() {
                0 => return Err(PatternError::Empty(number)),
                1..=MAX_PATTERN_LENGTH if known.insert(pattern.clone()) => distinct.push(pattern),
                1..=MAX_PATTERN_LENGTH => {}
                long => return Err(PatternError::Long(number, long)),
            }
        }
        let lengths = || distinct.iter().map(Vec::len);
        let (Some(shortest), Some(longest)) = (lengths().min(), lengths().max()) else {
            return Err(PatternError::None);
        };
        let roll = Roll::new(shortest, bits);
        let mut printed: Vec<(u64, u32)> = (0..).zip(&distinct).map(|(n, p)| (roll.print(p), n)).collect();
        printed.sort_unstable();
        let (mut prints, mut buckets): (Vec<u64>, Vec<Vec<u32>>) = Default::default();
        let mut filter = vec![0; 1 << (FILTER_BITS - 6)];
        for (print, number) in printed {
            if prints.last() != Some(&print) {
                prints.push(print);
                buckets.push(Vec::new());
                let bit = filter_bit(print, bits);
                filter[bit >> 6] |= 1 << (bit & 63);
            }
            buckets.last_mut().expect("a bucket has just been made").push(number);
        }
        Ok(Patterns { patterns: distinct, roll, longest, prints, buckets, filter })
    }

    /// Returns the distinct patterns in the order in which they were given.
    pub fn all(&self) -> &[Vec<u8>] {
        &self.patterns
    }

    /// Returns the length of the longest pattern.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Returns the rolling hash whose fingerprints find the candidates for matches.
    pub fn roll(&self) -> &Roll {
        &self.roll
    }

    pub(crate) fn single_fingerprint(&self) -> Option<u64> {
        (self.prints.len() == 1).then(|| self.prints[0])
    }

    /// Returns the number of the bucket (patterns with equal fingerprints) for a fingerprint, if a pattern has this fingerprint.
    #[inline]
    pub(crate) fn bucket(&self, print: u64) -> Option<u32> {
        let bit = filter_bit(print, self.roll.bits());
        if self.filter[bit >> 6] & 1 << (bit & 63) == 0 {
            return None;
        }
        self.prints.binary_search(&print).ok().map(|bucket| bucket as u32)
    }

    /// Returns the indexes of the patterns in a bucket (those with the same fingerprint), in ascending order.
    ///
    /// # Panics
    /// Panics if there is no bucket with this number, as for a number from another set of patterns.
    pub fn of_bucket(&self, bucket: u32) -> &[u32] {
        &self.buckets[bucket as usize]
    }

    /// Returns a hash of the patterns and the number of bits, by which a rank detects that its file of patterns differs from that of rank 0.
    pub fn fingerprint(&self) -> u64 {
        // `DefaultHasher::new` has fixed keys, so equal patterns have equal hashes on all ranks.
        let mut hasher = DefaultHasher::new();
        (&self.patterns, self.roll.bits()).hash(&mut hasher);
        hasher.finish()
    }
}

#[inline]
fn filter_bit(print: u64, bits: u32) -> usize {
    (print >> bits.saturating_sub(FILTER_BITS)) as usize
}

/// Error in a set of patterns. Patterns are numbered from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// The set has no pattern.
    None,
    /// The pattern with this number is empty.
    Empty(usize),
    /// The pattern with this number is too long; the second number is its length in bytes.
    Long(usize, usize),
    /// The number of bits of a fingerprint is out of range.
    Bits(u32),
}

impl fmt::Display for PatternError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            PatternError::None => f.write_str("no pattern is given"),
            PatternError::Empty(number) => {
                write!(f, "pattern {} is empty, which would match everywhere", number + 1)
            }
            PatternError::Long(number, bytes) => {
                write!(f, "pattern {} has {bytes} bytes, expected at most {MAX_PATTERN_LENGTH}", number + 1)
            }
            PatternError::Bits(bits) => {
                write!(f, "a fingerprint has 1 to {MAX_BITS} bits, not {bits}")
            }
        }
    }
}

impl std::error::Error for PatternError {}

#[cfg(test)]
mod tests {
    use super::*;

    fn patterns(text: &str, bits: u32) -> Result<Patterns, PatternError> {
        Patterns::new(text.split(' ').map(|p| p.as_bytes().to_vec()), bits)
    }

    #[test]
    fn duplicate_patterns_are_stored_once_and_order_is_kept() {
        let set = patterns("ab abc ab xyz abd", 64).unwrap();
        assert_eq!(set.all(), [&b"ab"[..], b"abc", b"xyz", b"abd"]);
        assert_eq!((set.longest(), set.roll().length()), (3, 2));
        let bucket = set.bucket(set.roll().print(b"ab")).unwrap();
        assert_eq!(set.of_bucket(bucket), [0, 1, 3]);
        assert_eq!(set.bucket(set.roll().print(b"zz")), None);
    }

    #[test]
    fn narrow_fingerprints_share_buckets() {
        let set = patterns("aa bb cc dd ee ff gg hh", 1).unwrap();
        let all: usize = (0..set.buckets.len()).map(|bucket| set.of_bucket(bucket as u32).len()).sum();
        assert!(set.buckets.len() <= 2 && all == 8);
    }

    #[test]
    fn unusable_patterns_are_refused() {
        assert_eq!(Patterns::new([], 8).unwrap_err(), PatternError::None);
        assert_eq!(patterns("a  b", 8).unwrap_err(), PatternError::Empty(1));
        assert_eq!(patterns("a", 0).unwrap_err(), PatternError::Bits(0));
        assert_eq!(patterns("a", 65).unwrap_err(), PatternError::Bits(65));
        let long = Patterns::new([vec![0; MAX_PATTERN_LENGTH + 1]], 8).unwrap_err().to_string();
        assert!(long.contains("expected at most"), "{long}");
    }

    #[test]
    fn different_patterns_have_different_fingerprints() {
        let of = |text, bits| patterns(text, bits).unwrap().fingerprint();
        assert_eq!(of("a b", 8), of("a b", 8));
        assert!(
            of("a b", 8) != of("b a", 8) && of("a b", 8) != of("a b", 9) && of("ab c", 8) != of("a bc", 8)
        );
    }
}

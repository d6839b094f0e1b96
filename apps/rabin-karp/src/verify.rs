//! Comparison of candidates (possible matches) with patterns.

use crate::hash::Candidate;
use crate::patterns::Patterns;

/// Match of a pattern: its offset in the text, and the index of its pattern.
pub type Match = (u64, u32);

/// Calls `see` for each match among the candidates, with the candidate's position and the index of the pattern. Matches are in the order of the
/// candidates, and in the order of the patterns for each candidate.
pub fn verify(patterns: &Patterns, bytes: &[u8], candidates: &[Candidate], mut see: impl FnMut(u32, u32)) {
    for &[place, bucket] in candidates {
        let behind = &bytes[place as usize..];
        for &number in patterns.of_bucket(bucket) {
            if behind.starts_with(&patterns.all()[number as usize]) {
                see(place, number);
            }
        }
    }
}

/// Returns all matches, found by a comparison at every position. Tests compare the matches of the pipeline with these.
///
/// ```
/// use rabin_karp::{patterns::Patterns, verify::naive};
/// let patterns = Patterns::new([b"aba".to_vec(), b"b".to_vec()], 64)?;
/// assert_eq!(naive(&patterns, b"ababa"), [(0, 0), (1, 1), (2, 0), (3, 1)]);
/// # Ok::<(), rabin_karp::patterns::PatternError>(())
/// ```
pub fn naive(patterns: &Patterns, text: &[u8]) -> Vec<Match> {
    let at = |place: usize| {
        let is = move |pattern: &[u8]| text[place..].starts_with(pattern);
        (0..).zip(patterns.all()).filter(move |(_, p)| is(p)).map(move |(number, _)| (place as u64, number))
    };
    (0..text.len()).flat_map(at).collect()
}

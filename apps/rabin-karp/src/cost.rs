//! What each stage costs, for runs on simulated machines where computing takes no time by itself.
//!
//! In floating-point operations of a processor that does 10⁹ a second, so a nanosecond counts as one operation: the stages
//! were timed in a release build on one core of a cloud server, over 64 KiB of "foobar" and of random bytes.

/// Hashing: every place costs the same, and what is proposed is written down.
pub fn hash(bytes: usize, proposed: usize) -> f64 {
    200.0 + 1.0 * bytes as f64 + 1.0 * proposed as f64
}

/// Comparing the candidates, of so many bytes each at the most: 16 bytes take a nanosecond.
pub fn verify(candidates: usize, longest: usize) -> f64 {
    200.0 + candidates as f64 * (4.0 + longest as f64 / 16.0)
}

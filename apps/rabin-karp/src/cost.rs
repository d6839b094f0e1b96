//! Cost model of the pipeline stages of `rabin-karp`, for runs on simulated machines, where computing takes no time.
//!
//! The unit is one floating-point operation of a processor with 10⁹ operations per second; one nanosecond counts as one operation. The stages were
//! timed in a release build on one core of a cloud server, over 64 KiB of "foobar" and of random bytes.

/// Returns the cost, in operations, of hashing `bytes` bytes of text, in which `proposed` positions become candidates for matches.
pub fn hash(bytes: usize, proposed: usize) -> f64 {
    200.0 + 1.0 * bytes as f64 + 1.0 * proposed as f64
}

/// Returns the cost, in operations, of comparing `candidates` candidates with patterns of at most `longest` bytes. A comparison of 16 bytes takes one
/// nanosecond.
pub fn verify(candidates: usize, longest: usize) -> f64 {
    200.0 + candidates as f64 * (4.0 + longest as f64 / 16.0)
}

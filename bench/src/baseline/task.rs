//! Trivial task of the farm experiments, which the programs for other frameworks use, too.

/// Computes the result of one trivial task.
#[inline]
pub fn work(word: u64) -> u64 {
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(1)
}

/// Returns the sum of all results, for a sink that receives results in any order.
pub fn in_any_order(tasks: usize) -> u64 {
    (0..tasks as u64).map(work).fold(0, u64::wrapping_add)
}

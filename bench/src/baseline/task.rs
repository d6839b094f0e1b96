//! The tiny task. The peers' programs include this file, too.

/// Does one task.
#[inline]
pub fn work(word: u64) -> u64 {
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(1)
}

/// The sum of all results, for who gets them in any order.
pub fn in_any_order(tasks: usize) -> u64 {
    (0..tasks as u64).map(work).fold(0, u64::wrapping_add)
}

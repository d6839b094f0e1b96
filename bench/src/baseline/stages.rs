//! The stages: each does a little to the first word of an item. The peers' programs include this file, too.

/// Stage 1.
#[inline]
pub fn first(word: u64) -> u64 {
    word.wrapping_add(0x9e37_79b9_7f4a_7c15)
}

/// Stage 2.
#[inline]
pub fn second(word: u64) -> u64 {
    word ^ (word >> 31)
}

/// Stage 3.
#[inline]
pub fn third(word: u64) -> u64 {
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Stage 4.
#[inline]
pub fn fourth(word: u64) -> u64 {
    word.rotate_left(17)
}

/// What the sink keeps: depends on every result and on their order.
#[inline]
pub fn fold(sum: u64, word: u64) -> u64 {
    sum.rotate_left(5) ^ word
}

/// The fold over so many items, computed without any pipeline.
pub fn expected(items: usize) -> u64 {
    (0..items as u64).map(|word| fourth(third(second(first(word))))).fold(0, fold)
}

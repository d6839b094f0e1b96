//! The four stages of the benchmark's pipelines, each of which does a little work on the first 64-bit integer of an item. The benchmark's programs
//! for other frameworks use these functions, too.

/// Applies stage 1 of the benchmark's pipelines to `word`, the first 64-bit integer of an item.
#[inline]
pub fn first(word: u64) -> u64 {
    word.wrapping_add(0x9e37_79b9_7f4a_7c15)
}

/// Applies stage 2 of the benchmark's pipelines to `word`, the first 64-bit integer of an item.
#[inline]
pub fn second(word: u64) -> u64 {
    word ^ (word >> 31)
}

/// Applies stage 3 of the benchmark's pipelines to `word`, the first 64-bit integer of an item.
#[inline]
pub fn third(word: u64) -> u64 {
    word.wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Applies stage 4 of the benchmark's pipelines to `word`, the first 64-bit integer of an item.
#[inline]
pub fn fourth(word: u64) -> u64 {
    word.rotate_left(17)
}

/// Folds a result into the checksum of the sink, which depends on every result and on their order.
#[inline]
pub fn fold(sum: u64, word: u64) -> u64 {
    sum.rotate_left(5) ^ word
}

/// Returns the checksum of the results of `items` items, whose first 64-bit integers are 0, 1, 2 and so on. It is computed serially.
pub fn expected(items: usize) -> u64 {
    (0..items as u64).map(|word| fourth(third(second(first(word))))).fold(0, fold)
}

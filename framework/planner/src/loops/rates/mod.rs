//! Speed of each rank of a loop: reports of the ranks, their accumulation, and smoothing of rates.

pub(in crate::loops) mod filter;
pub(in crate::loops) mod interaction;
pub(in crate::loops) mod rate_accumulator;

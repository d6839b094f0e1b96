//! Speed of each rank: reports, their accumulation, and smoothing of rates.

pub(in crate::loops) mod filter;
pub(in crate::loops) mod interaction;
pub(in crate::loops) mod rate_accumulator;

//! How fast each rank is: what a report says, what short reports add up to, and what is believed of it.

pub(in crate::loops) mod filter;
pub(in crate::loops) mod interaction;
pub(in crate::loops) mod rate_accumulator;

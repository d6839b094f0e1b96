//! Whether units move: what it costs and saves, how long rates last, how often they are looked at, what came of it.

pub(in crate::loops) mod cost_benefit;
pub(in crate::loops) mod decision;
pub(in crate::loops) mod period;
pub(in crate::loops) mod realised_gain;
#[cfg(test)]
mod realised_gain_tests;
pub(in crate::loops) mod stability;

//! Whether units move: what it costs and saves, how long rates last, how often they are looked at, what came of it.

pub(in crate::loops) mod cost_benefit;
pub(in crate::loops) mod decision;
pub(in crate::loops) mod period;
pub(in crate::loops) mod realised_gain;
#[cfg(test)]
mod realised_gain_tests;
pub(in crate::loops) mod stability;

/// Movements, gaps between changes, and finished trials that are looked back on. The paper says only that recent ones count;
/// with one or two a single odd one decides, with many a loop that has changed is judged by what it was.
const RECENT: usize = 5;

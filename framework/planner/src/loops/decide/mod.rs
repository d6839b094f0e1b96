//! Parts of the decision whether units (loop iterations) move between ranks: costs and savings of moves, stability of rates, balancing period, and
//! measured savings.

pub(in crate::loops) mod cost_benefit;
pub(in crate::loops) mod decision;
pub(in crate::loops) mod period;
pub(in crate::loops) mod realised_gain;
#[cfg(test)]
mod realised_gain_tests;
pub(in crate::loops) mod stability;

/// Number of recent values of which the median or mean counts: past movements, times between changes of rates, and comparisons of predicted with
/// measured savings. The paper of Siegell and Steenkiste says only that recent ones count. With one or two values, a single outlier decides; with
/// many, a loop that has changed is judged by old data.
const RECENT: usize = 5;

//! Experiments on plans of workflows: what they are worth, how long planning takes, and what becomes of them when tasks differ
//! from what was known.

mod instances;
pub(super) mod quality;
pub(super) mod replan;
pub(super) mod time;

//! The planners: each finds a mapping, the [model](super::model) says what it is worth.

pub(in crate::pipeline) mod bsc;
pub(in crate::pipeline) mod dpm;
pub(in crate::pipeline) mod flexible;
pub(in crate::pipeline) mod hedpm;
mod ideal;
pub(in crate::pipeline) mod optimal;
pub(in crate::pipeline) mod refine;
pub(in crate::pipeline) mod repair;
pub(in crate::pipeline) mod starts;
pub(in crate::pipeline) mod stop;

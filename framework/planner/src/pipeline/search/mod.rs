//! Planners of pipelines, each of which finds a mapping that the [model](super::model) evaluates.

pub(in crate::pipeline) mod bsc;
pub(in crate::pipeline) mod dpm;
pub(in crate::pipeline) mod flexible;
pub(in crate::pipeline) mod hedpm;
mod ideal;
pub(in crate::pipeline) mod refine;
pub(in crate::pipeline) mod repair;
pub(in crate::pipeline) mod starts;
pub(in crate::pipeline) mod stop;

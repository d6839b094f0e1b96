//! Planners of pipelines: algorithms that find a mapping of stages to processors.

pub(in crate::pipeline) mod bsc;
pub(in crate::pipeline) mod dpm;
pub(in crate::pipeline) mod flexible;
pub(in crate::pipeline) mod hedpm;
mod ideal;
pub(in crate::pipeline) mod refine;
pub(in crate::pipeline) mod repair;
pub(in crate::pipeline) mod starts;
pub(in crate::pipeline) mod stop;

//! Performance model of a mapping: costs of work and transfers, division of processors and cores among blocks of stages, and the production time.

pub(in crate::pipeline) mod capacity;
mod core_sharing;
pub(in crate::pipeline) mod costs;
mod prediction;
pub(in crate::pipeline) mod production_time;

pub use prediction::item_times_of;
pub use prediction::{BlockPrediction, Prediction, production_time};
pub(in crate::pipeline) use prediction::{pace, predict};

//! Planning of linear pipelines: mappings of stages to processors.
//!
//! A [`PipelineSpec`] describes the work and a [`Platform`](crate::Platform) the processors and links; [`plan`] returns a [`Mapping`] of the pipeline
//! to the platform. [`production_time`] predicts the production time of any mapping. The model and the planners HeDPM, DPM and BSC follow
//! *Heterogeneous Dynamic Pipeline Mapping* (2017). Replicated groups of stages, processors that host several blocks, dispatch on demand and the
//! refined planner go beyond that paper.

mod dispatch;
mod mapping;
mod model;
mod plan;
mod rules;
mod search;
mod spec;

pub use dispatch::Dispatch;
pub use mapping::{Block, Mapping};
#[doc(hidden)]
pub use model::item_times_of;
pub use model::{BlockPrediction, Prediction, production_time};
pub use plan::{Algorithm, Plan, PlanOptions, plan};
pub use spec::{PipelineSpec, StageSpec};

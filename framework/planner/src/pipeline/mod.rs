//! Mapping a linear pipeline to processors.
//!
//! Describe the work in a [`PipelineSpec`] and the machine in a [`Platform`](crate::Platform), and ask [`plan`]
//! for a [`Mapping`]; [`production_time`] says what any mapping is worth. The model and the planners HeDPM, DPM
//! and BSC follow *Heterogeneous Dynamic Pipeline Mapping* (2017); replicas of groups, processors that host several
//! blocks, dispatch on demand and the refined planner go beyond it.

mod dispatch;
mod mapping;
mod model;
mod plan;
mod rules;
mod search;
mod spec;

pub use dispatch::Dispatch;
pub use mapping::{Block, Mapping};
pub(crate) use model::item_times_of;
pub use model::{BlockPrediction, Prediction, production_time};
pub use plan::{Algorithm, Plan, PlanOptions, plan};
pub use spec::{PipelineSpec, StageSpec};

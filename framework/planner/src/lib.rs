//! The decisions of armature: which processor runs what.
//!
//! This crate is pure. It knows no MPI, no files, no clock and no global state; the same question always gets the
//! same answer. The runtime asks it with what it measured, and so can you, for a machine that you do not have:
//!
//! ```
//! use armature_planner::pipeline::{PipelineSpec, PlanOptions, StageSpec, plan};
//! use armature_planner::{Link, Platform};
//!
//! // Three stages: work units and bytes per item. The first keeps the order of its input file.
//! let spec = PipelineSpec::new(1e3)
//!     .stage(StageSpec::new("read", 1.0, 1e6).serial())
//!     .stage(StageSpec::new("filter", 12.0, 1e6))
//!     .stage(StageSpec::new("store", 2.0, 0.0));
//! // Three processors, one twice as fast (work units per second), on a network of 1 GB/s.
//! let platform = Platform::with_speeds(&[100.0, 100.0, 200.0], Link { bandwidth: 1e9, setup: 1e-5 })?;
//!
//! let plan = plan(&platform, &spec, &PlanOptions::default())?;
//! plan.mapping.validate(&spec, platform.processors())?;
//! // All three processors together do 400 units a second and an item has 15: 26 items/s at the very best.
//! assert!(plan.prediction.throughput() > 20.0, "{}", plan.mapping.display(&spec));
//! assert!(plan.prediction.throughput() < 26.7);
//! # Ok::<(), armature_planner::Error>(())
//! ```
//!
//! [`pipeline`], [`farm`], [`loops`] and [`workflow`] hold the models and the planners, [`simulate`] what their predictions are checked
//! against. [`estimate`] makes the planners' input of what was measured, [`papers`] keeps what no
//! decision uses, [`tuner`] decides when a better plan is worth changing to, and [`random`] is what simulations draw from.

mod cores;
mod error;
pub mod estimate;
pub mod farm;
pub mod loops;
pub mod papers;
pub mod pipeline;
mod platform;
pub mod random;
mod range;
#[cfg(test)]
mod reference;
pub mod simulate;
pub mod tuner;
mod words;
pub mod workflow;

pub use cores::SharedCores;
pub use error::{Error, ErrorKind, Result};
pub use platform::{Link, Platform};

/// The book's chapter, so that its example compiles and is true.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/planning.md")]
struct Planning;

/// The chapter on farms.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/farm-planning.md")]
struct FarmPlanning;

/// The chapter on loops.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/loop-planning.md")]
struct LoopPlanning;

/// The chapter on workflows.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/workflow-planning.md")]
struct WorkflowPlanning;

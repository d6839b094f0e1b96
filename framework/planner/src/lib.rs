//! Planning for armature: which processor runs which work.
//!
//! The crate is pure: no MPI, no files, no clock and no global state, and equal arguments always give equal results. The runtime calls the planner
//! with its measurements. A program can also call it, for example to plan for another machine:
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
//! [`pipeline`], [`farm`], [`loops`] and [`workflow`] contain the models and the planners. [`simulate`] contains the simulation of a farm with which
//! the sizes of its chunks are chosen. [`estimate`] computes the input of the planners from measurements. [`tuner`] decides when a change to a better
//! plan pays. [`random`] generates the random numbers of simulations. Methods of the papers that no decision uses are in the crate `armature-papers`.
//!
//! # Features
//! `farm`, `pipeline`, `loops` and `workflow`, all of them default, compile the module of that name, and what only this module needs.

#![cfg_attr(
    not(all(feature = "farm", feature = "pipeline", feature = "loops", feature = "workflow")),
    allow(
        dead_code,
        unused_imports,
        reason = "some functions of the shared modules are used by one planner only"
    )
)]

/// Name by which included generators refer to this crate. The unit tests include these generators from the crate `armature-papers`.
#[cfg(test)]
extern crate self as armature_planner;

mod cores;
mod error;
pub mod estimate;
#[cfg(feature = "farm")]
pub mod farm;
#[cfg(feature = "loops")]
pub mod loops;
mod number_format;
#[cfg(feature = "pipeline")]
pub mod pipeline;
mod platform;
pub mod random;
#[doc(hidden)]
pub mod range;
#[cfg(test)]
mod reference;
#[cfg(feature = "farm")]
pub mod simulate;
#[cfg(any(feature = "farm", feature = "pipeline", feature = "loops"))]
pub mod tuner;
#[cfg(feature = "workflow")]
pub mod workflow;

pub use cores::SharedCores;
pub use error::{Error, ErrorKind, Result};
pub use platform::{Link, Platform};

/// Chapters of the book, included so that their examples are compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/planning.md")]
struct Planning;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/farm-planning.md")]
struct FarmPlanning;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/loop-planning.md")]
struct LoopPlanning;

#[cfg(doctest)]
#[doc = include_str!("../../../docs/workflow-planning.md")]
struct WorkflowPlanning;

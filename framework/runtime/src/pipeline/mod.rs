//! Pipelines: items flow from a source through stages to a sink, over as many ranks as there are.
//!
//! ```
//! use armature::pipeline::Pipeline;
//!
//! let config = armature::Config::new().ranks(3);
//! let words = armature::run(&config, |session| {
//!     let words = Pipeline::source("numbers", || 0..1_000u64)
//!         .map("square", |x| x * x)
//!         .filter_map("even", |x| (x % 2 == 0).then_some(x))
//!         .map("show", |x| format!("<{x}>"))
//!         .collect();
//!     Ok(words.run(session)?)
//! })?;
//! let (words, _summary) = words.unwrap();
//! assert_eq!(words.len(), 500);
//! assert_eq!(words[..3], ["<0>", "<4>", "<16>"]);
//! # Ok::<(), armature::Error>(())
//! ```
//!
//! Every rank builds the same pipeline. Rank 0 reads the source and feeds the sink; which rank runs which stage
//! is the [mapping](MappingChoice): by default a short calibration run measures the stages and the planner
//! decides. Consecutive stages on one rank are *gathered* and pass items on without a message; a slow stage, or a
//! run of stages, is *replicated* on several ranks, and each replica takes the next batch when it is free.
//!
//! The sink sees items in the order of the source, each exactly once, whatever the mapping; a
//! [serial](Pipeline::serial) stage does too. [`Pipeline::unordered`] lets items overtake each other instead.
//!
//! # Limits
//! - The source is drawn from while rank 0 has nothing better to do. An iterator that blocks holds up the stages
//!   and the sink of rank 0 as long.
//! - What is in flight is bounded by a window ([`window_bytes`](Runnable::window_bytes)), which
//!   counts the bytes that items have on the wire.
//!
//! The protocol is described in `machine/README.md` beside this module's source.

mod builder;
mod choice;
mod collect;
#[cfg(doctest)]
mod compile_fail;
mod controller;
mod coordinator;
mod core_sharing;
mod erased;
mod fill;
mod flat_map;
mod job_cost;
mod links;
mod machine;
mod made;
mod messages;
mod metrics;
mod participant;
mod performance_model;
mod progress;
mod range;
mod remap_cost;
mod remaps;
mod run;
mod run_spec;
mod runnable;
mod sizes;
mod source_sink;
mod stage;
mod stage_call;
mod stage_def;
mod stage_host;
mod stats;
mod steal_time;
mod summary;
mod tasks;
mod worker;

/// What ranks wait for each other to come to, in words.
const NAME: &str = "the pipeline";

pub use crate::context::Context;
pub use armature_planner::pipeline::{Block, Dispatch, Mapping};
pub use builder::Pipeline;
pub use choice::MappingChoice;
pub use collect::Collect;
pub use remaps::Remap;
pub use runnable::Runnable;
pub use stage::{Stage, StageResult};
pub use stats::{RankReport, StageStats};
pub use summary::Summary;

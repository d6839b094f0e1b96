//! Pipelines: items flow from a source through stages to a sink, on any number of ranks.
//!
//! ```
//! use armature::pipeline::Pipeline;
//!
//! let config = armature::Config::new().ranks(3);
//! let words = armature::run(&config, |session| {
//!     let words = Pipeline::source("numbers", || 0..1_000u64)
//!         .map("square", |x| x * x)
//!         .filter_map("even", |x| (x % 2 == 0).then_some(x))
//!         .map("show", |x| format!("<{x}>"));
//!     Ok(words.collect(session)?.on_root())
//! })?;
//! let words = words.unwrap();
//! assert_eq!(words.len(), 500);
//! assert_eq!(words[..3], ["<0>", "<4>", "<16>"]);
//! # Ok::<(), armature::Error>(())
//! ```
//!
//! Every rank builds the same pipeline. Rank 0 reads the source and runs the sink. The [mapping](MappingChoice) assigns stages to ranks; by
//! default a short calibration run measures the stages and the planner computes a mapping. Consecutive stages on one rank are *gathered*
//! and pass items on without a message. A slow stage, or a group of consecutive stages, is *replicated* on several ranks, and each replica
//! takes the next batch when it is free.
//!
//! The sink and [serial](Pipeline::serial) stages get items in the order of the source, each exactly once, whatever the mapping is.
//! [`Pipeline::unordered`] lets items overtake each other.
//!
//! # Limits
//! - Rank 0 reads the source between its other work. An iterator that blocks delays the stages and the sink of rank 0.
//! - A window ([`window_bytes`](Pipeline::window_bytes)) limits the items in flight. It counts encoded bytes.
//!
//! `README.md` in the source directory of this module describes its parts, and `machine/README.md` the protocol.

mod builder;
mod choice;
mod collect;
#[cfg(doctest)]
mod compile_fail;
mod controller;
mod core_sharing;
mod erased;
#[cfg(feature = "experiments")]
mod experiments;
mod fill;
mod flat_map;
mod job_cost;
mod links;
mod machine;
mod messages;
mod metrics;
mod observer;
mod options;
mod performance_model;
mod pipeline_def;
mod produced_counts;
mod progress;
mod range;
mod remap_cost;
mod remaps;
mod root;
mod run;
mod run_spec;
mod sink;
mod sizes;
#[cfg(test)]
mod snapshot_tests;
mod snapshots;
mod source_sink;
mod stage;
mod stage_def;
mod stage_host;
mod stats;
mod steal_time;
mod summary;
mod worker;

const NAME: &str = "the pipeline";

pub use crate::context::Context;
pub use crate::persist::snapshot::Checkpoint;
pub use armature_planner::pipeline::{Block, Dispatch, Mapping};
pub use builder::Pipeline;
pub use choice::MappingChoice;
pub use remaps::Remap;
pub use sink::Sink;
pub use snapshots::SnapshotCosts;
pub use stage::{Stage, StageResult};
pub use stats::{RankReport, StageStats};
pub use summary::Summary;

//! MPI programs that keep themselves balanced.
//!
//! Write a trait impl (or closures) for a [pipeline], start the program with `mpirun`, and the framework decides which rank runs which stage: slow
//! stages are replicated, fast stages share a rank. The independent tasks of a [farm] run on any free rank. The units (rows or indices) of a
//! parallel [loop](loops) move to faster ranks together with their data. The tasks of a [workflow] depend on one another, and are planned
//! so that they fit into the memory of each rank.
//!
//! ```
//! use armature::pipeline::Pipeline;
//!
//! fn main() -> std::process::ExitCode {
//!     // `mpirun -n 6 app` makes six ranks of it, `app --ranks 6` six threads; alone it is one rank.
//!     armature::main(|session| {
//!         let mut total = 0;
//!         Pipeline::source("numbers", || 1..=100u64)
//!             .map("square", |x| x * x)
//!             .for_each(session, "sum", |x| total += x)?;
//!         if session.is_root() {
//!             assert_eq!(total, 338_350);
//!         }
//!         Ok(())
//!     })
//! }
//! ```
//!
//! # What can go wrong
//! An error or panic in user code, on any rank, ends the whole job within seconds. The message names rank, stage and item. A rank that is silent for
//! [`Config::peer_limit`] ends the job, too. A pipeline retries and saves nothing. A [farm](farm#failures) or a [workflow](workflow#failures) retries
//! failed tasks as often as its option `retries` allows, by default never. With retries it survives the death of a worker, if the launcher keeps the
//! other ranks running. With a [journal](farm::Farm::journal) a restarted job runs only the missing tasks.
//!
//! # Features
//! - `mpi` (default): ranks as MPI processes. Without it, ranks are threads of one process.
//! - `hwloc` (default): cores, caches and memory from hwloc. Without it, from `/sys`.
//! - `farm`, `pipeline`, `loops`, `workflow` (default): one module each. `workflow` includes [`Commands`] and the formats of workflow files. A
//!   program that uses only one skeleton compiles faster with `default-features = false` and the features that it needs, such as
//!   `features = ["mpi", "hwloc", "farm"]`.
//! - `clap`: `armature::cli::RunArgs`, the options of a run as a part of a program's own parser.

#![cfg_attr(
    not(all(feature = "farm", feature = "pipeline", feature = "loops", feature = "workflow")),
    allow(
        dead_code,
        unused_imports,
        reason = "some functions of the shared layers are used by one skeleton only"
    )
)]

mod balance;
#[cfg(feature = "clap")]
pub mod cli {
    //! Options of a run for programs that parse their arguments with clap.
    pub use crate::session::RunArgs;
}
mod comm;
mod context;
mod error;
mod failed_task;
#[cfg(feature = "farm")]
pub mod farm;
#[cfg(test)]
mod golden;
pub mod job_status;
#[cfg(feature = "loops")]
pub mod loops;
pub mod observe;
mod outcome;
mod persist;
#[cfg(feature = "pipeline")]
pub mod pipeline;
mod rank;
mod session;
#[cfg(any(feature = "farm", feature = "workflow"))]
mod tasks;
mod user_code;
mod wire;
#[cfg(feature = "workflow")]
pub mod workflow;

pub use comm::clock::{Stopwatch, declare};
#[cfg(feature = "mpi")]
pub use comm::mpi::{Communicator, mpi};
pub use context::Context;
pub use error::{BoxError, Error, ErrorKind, Result};
pub use failed_task::FailedTask;
pub use observe::summary::{RankWork, RunSummary};
pub use outcome::Outcome;
pub use persist::journal;
#[cfg(feature = "workflow")]
pub use session::Commands;
pub use session::topology::{Core, CoreLimit, Source as TopologySource, Topology};
pub use session::{
    Balance, BatchMode, Bind, Config, Driver, Progress, Session, TransportChoice, exit_code, main, run,
};
pub use session::{JobPlatform, Processors};
pub use wire::{Item, Movable, Named, Plain, raw};

/// The README and the pages of the book as documentation, so that their examples are compiled and tested.
#[cfg(doctest)]
mod book {
    #[doc = include_str!("../../../README.md")]
    struct Readme;
    #[doc = include_str!("../../../docs/quick-start.md")]
    struct QuickStart;
    #[doc = include_str!("../../../docs/simulate.md")]
    struct Simulate;
    #[doc = include_str!("../../../docs/tutorial.md")]
    struct Tutorial;
    #[doc = include_str!("../../../docs/pipelines.md")]
    struct Pipelines;
    #[doc = include_str!("../../../docs/balancing.md")]
    struct Balancing;
    // The page about farms is tested only with the feature `mpi`, because one of its examples uses the MPI bindings.
    #[cfg(feature = "mpi")]
    #[doc = include_str!("../../../docs/farms.md")]
    struct Farms;
    #[doc = include_str!("../../../docs/agreement.md")]
    struct Agreement;
    #[doc = include_str!("../../../docs/deaths.md")]
    struct Deaths;
    #[doc = include_str!("../../../docs/farm-workers.md")]
    struct FarmWorkers;
    #[doc = include_str!("../../../docs/loops.md")]
    struct Loops;
    #[doc = include_str!("../../../docs/values.md")]
    struct Values;
    #[cfg(feature = "mpi")]
    #[doc = include_str!("../../../docs/beside-mpi.md")]
    struct EmbeddedInMpi;
    #[doc = include_str!("../../../docs/workflows.md")]
    struct Workflows;
    #[doc = include_str!("../../../docs/from-mpi4py.md")]
    struct FromMpi4py;
    #[cfg(feature = "mpi")]
    #[doc = include_str!("../../../docs/from-rsmpi.md")]
    struct FromRsmpi;
    #[doc = include_str!("../../../docs/from-c.md")]
    struct FromC;
    #[doc = include_str!("../../../docs/from-dask.md")]
    struct FromDask;
    #[doc = include_str!("../../../docs/from-rayon.md")]
    struct FromRayon;
}

//! Task farms: independent tasks, which run on whichever rank is free.
//!
//! ```
//! use armature::farm::Farm;
//!
//! let config = armature::Config::new().ranks(3);
//! let sum = armature::run(&config, |session| {
//!     let mut sum = 0;
//!     Farm::new("square", |x: u64| x * x).for_each(session, 1..=1_000, |_, square| sum += square)?;
//!     Ok(sum)
//! })?;
//! assert_eq!(sum, 333_833_500);
//! # Ok::<(), armature::Error>(())
//! ```
//!
//! Every rank builds the same farm. Rank 0, the *master*, draws tasks from an iterator and sends them in *chunks* to ranks that request
//! work; by default it runs tasks too. [`Chunking`] determines the size of chunks. Workers request chunks in advance, so that they do not
//! wait for the next one.
//!
//! [`Farm::for_each`] runs a stream of tasks, finite or endless. [`Farm::iterate`] runs sets of tasks, each made from the results of the
//! previous set. With [`Farm::worklist`] the sink adds tasks, and in a farm made by [`Farm::exploring`] tasks make tasks. The tasks of a
//! branch-and-bound search share their best value in an [`Incumbent`].
//!
//! # Failures
//! - A task that returns an error or panics ends the job. With [`Farm::retries`] it is tried again first, on another rank.
//! - The methods [`for_each_result`](Farm::for_each_result), [`collect_results`](Farm::collect_results) and the other methods with `_results`
//!   in their names continue after a failed task, and return it as a [`FailedTask`].
//! - A worker without heartbeats ([`Farm::silence_limit`]) counts as dead, and its tasks are sent to other workers. Its late results are
//!   ignored: the result of each task is delivered exactly once. The launcher has to let the other ranks continue. The death counts as a try
//!   of the task that the worker was in, so that the farm needs a [retry](Farm::retries) to survive it.
//! - The time of a task is not limited, unless [`Farm::task_limit`] is set.
//! - The death of rank 0 ends the job. With a [journal](Farm::journal) a job that is started again runs only the missing tasks.
//!
//! `state/README.md` in the source directory of this module describes the protocol.

mod builder;
mod chunk_result;
mod controller;
mod death_records;
mod delivery;
#[cfg(test)]
mod events_tests;
mod explore;
mod explore_run;
#[cfg(test)]
mod explore_tests;
mod failure_detector;
mod flow;
mod follower;
#[cfg(test)]
mod golden_tests;
mod incumbent;
mod incumbent_link;
#[cfg(test)]
mod incumbent_tests;
mod link;
mod master;
mod messages;
mod options;
mod resequencer;
mod result_journal;
mod run;
mod state;
mod submaster;
mod summary;
mod task_runner;
mod task_set_digest;
mod task_source;
#[cfg(test)]
mod tests;
mod traffic;
mod user_job;
mod window;
mod worker;
mod worker_role;
mod worklist;

pub use crate::context::Context;
pub use crate::failed_task::FailedTask;
pub use armature_planner::farm::{Chunking, Published};
pub use builder::Farm;
pub use explore::{Exploration, Explored, More, Part};
pub use flow::Flow;
pub use incumbent::Incumbent;
pub use summary::{RankReport, Summary};
pub use worker::Worker;

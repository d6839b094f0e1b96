//! Farms: independent tasks, done by whichever rank is free.
//!
//! ```
//! use armature::farm::Farm;
//!
//! let config = armature::Config::new().ranks(3);
//! let sum = armature::run(&config, |session| {
//!     let mut sum = 0;
//!     let mut farm = Farm::try_new("square", |x: u64| x.checked_mul(x).ok_or("too large".into()));
//!     farm.for_each(session, 1..=1_000, |_, square| sum += square.unwrap())?;
//!     Ok(sum)
//! })?;
//! assert_eq!(sum, 333_833_500);
//! # Ok::<(), armature::Error>(())
//! ```
//!
//! Every rank builds the same farm. Rank 0, the *master*, draws tasks from an iterator and gives them away in *chunks*
//! to ranks that ask; by default it does tasks itself, too. How large chunks are is decided by [`Chunking`]. Workers hold
//! a few chunks ahead, so that they need not wait for the next one.
//!
//! [`Farm::for_each`] does a stream of tasks, finite or endless; [`Farm::iterate`] does sets of tasks, each made from the
//! results of the one before; with [`Farm::worklist`] the sink adds tasks, and those of a farm that is made by
//! [`Farm::exploring`] make tasks themselves.
//!
//! # What can go wrong
//! - A task that returns an error or panics is tried again on another rank, as often as [`Farm::retries`] says, then it
//!   comes back as a [`FailedTask`] (or ends the job: [`Farm::fail_fast`]).
//! - A worker that gives no sign of life ([`Farm::silence_limit`]) is dead, and its tasks go to others; results of it that
//!   come late are not used. Each task's result is delivered exactly once. This needs a launcher that lets the other
//!   ranks go on.
//! - A task may take as long as it likes, unless [`Farm::task_limit`] says otherwise.
//! - The death of rank 0 ends the job. With a [journal](Farm::journal) the job that is started again does only what is
//!   missing.
//!
//! The protocol is described in `state/README.md` beside this module's source.

mod builder;
mod chunk_result;
mod controller;
mod death_notes;
mod delivery;
#[cfg(test)]
mod events_tests;
mod explore;
mod explore_run;
#[cfg(test)]
mod explore_tests;
mod failure_detector;
mod follower;
#[cfg(test)]
mod golden_tests;
mod link;
mod master;
mod messages;
mod options;
mod outcome;
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
pub use armature_planner::farm::Chunking;
pub use builder::Farm;
pub use explore::{Exploration, Explored, More, Part};
pub use outcome::{FailedTask, Flow};
pub use summary::{RankReport, Summary};
pub use worker::Worker;

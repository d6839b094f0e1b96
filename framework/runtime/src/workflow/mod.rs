//! Workflows: tasks that depend on one another, planned so that they fit every rank's memory.
//!
//! ```
//! use armature::workflow::{Action, Description, Task, Workflow};
//!
//! // Two halves of a sum, and their total.
//! let mut sum = Description::builder("sum");
//! for half in ["first", "second"] {
//!     sum.task(Task::new(half, Action::Closure("half".into())));
//!     sum.edge(half, "total", 8);
//! }
//! sum.task(Task::new("total", Action::Closure("total".into())));
//! let sum = sum.build()?;
//!
//! let config = armature::Config::new().ranks(2);
//! let total = armature::run(&config, |session| {
//!     let mut sum = Workflow::new(sum.clone())
//!         .closure("half", |_, cx| Ok((0..100).map(|n| 100 * cx.number() + n).sum::<u64>()))
//!         .closure("total", |halves, _| Ok(halves.take_all::<u64>()?.iter().sum::<u64>()));
//!     let Some((mut results, summary)) = sum.collect(session)? else { return Ok(None) };
//!     assert_eq!(summary.tasks, 3);
//!     Ok(Some(results.take::<u64>("total")?))
//! })?;
//! assert_eq!(total, Some((0..200).sum()));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Every rank builds the same workflow. Rank 0, the *master*, has a plan made by
//! [`armature_planner::workflow`](https://docs.rs/armature-planner) if the description knows what tasks need, and gives each rank its tasks in that order, some ahead;
//! by default it runs tasks itself, too. What a task gives goes straight from the rank that made it to those that read it. Without a
//! plan, tasks go to whichever rank is free, near their inputs.
//!
//! A task may also be a command ([`Config::commands`](crate::Config::commands)): it reads and writes files in a
//! [directory](Workflow::directory) that all ranks share, or its files are [sent](Workflow::send_files), several run at a time on a rank, and its run time and peak memory are
//! [measured](Summary::measured). Variables tell a command about its task: `ARMATURE_TASK_NAME`, `ARMATURE_TASK_CPUS`, `ARMATURE_TASK_MEMORY` (bytes, if known),
//! `ARMATURE_TASK_RANK` and `ARMATURE_TASK_TRY` (from 1); `PMC_TASK`, `PMC_CPUS`, `PMC_MEMORY` and `PMC_RANK` are those of pegasus-mpi-cluster.
//!
//! # What can go wrong
//! - A task that returns an error or panics is tried again on another rank, as often as its description or
//!   [`Workflow::retries`] says. Then it ends the job, unless [`Workflow::max_failures`] allows for it: then the tasks behind it are
//!   not run, and the [`Summary`] names it.
//! - A command is ended at its time limit. A closure cannot be: one that returns later has failed, and one that goes on for twice as long
//!   ends the job.
//! - A rank holds no more than [`Workflow::memory`], as far as tasks need what their description says.
//! - A rank that dies is done without, where the launcher lets the others go on: what it had is run again. Its death counts as a try of the
//!   closure that it was in, which rank 0 never tries again.
//! - The death of rank 0 ends the job. With a [journal](Workflow::journal) the job that is started again runs only what is missing.
//!
//! The protocol is described in `README.md` beside this module's source.

mod builder;
mod closure;
mod commands;
mod failed_task;
mod files;
mod forecast;
#[cfg(test)]
mod golden_tests;
mod graph;
#[cfg(test)]
mod machine_tests;
mod master;
mod messages;
mod planning;
#[cfg(test)]
mod replanning_tests;
mod results;
mod root;
mod run;
mod running;
mod send;
mod share;
mod spill;
mod summary;
mod task_journal;
#[cfg(test)]
mod tests;
mod user_code;
mod value;
mod worker;

pub use crate::context::Context;
pub use armature_commands::Ended;
pub use armature_planner::workflow::{Cluster, MemoryModel, Plan, PlanOptions, Processor, TaskMemory};
pub use armature_workflow_files::{Action, Description, DescriptionBuilder, File, Task};
pub use builder::Workflow;
pub use closure::Inputs;
pub use failed_task::FailedTask;
pub use results::Results;
pub use summary::{Measured, RankReport, Summary};

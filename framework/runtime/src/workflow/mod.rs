//! Workflows: tasks that depend on one another, planned so that they fit every rank's memory.
//!
//! ```
//! use armature::workflow::Workflow;
//!
//! // Two halves of a sum, and their total.
//! let config = armature::Config::new().ranks(2);
//! let total = armature::run(&config, |session| {
//!     let mut flow = Workflow::new("sum");
//!     let first = flow.task("first", || (0..100).sum::<u64>());
//!     let second = flow.task("second", || (100..200).sum::<u64>());
//!     let total = flow.after("total", (&first, &second), |(first, second)| first + second);
//!     let Some((mut results, summary)) = flow.collect(session)?.into_parts() else { return Ok(None) };
//!     assert_eq!(summary.tasks, 3);
//!     Ok(Some(results.take(&total)?))
//! })?;
//! assert_eq!(total, Some((0..200).sum()));
//! # Ok::<(), armature::Error>(())
//! ```
//!
//! Every rank builds the same workflow, of [tasks](Workflow::task) or from a [description](Workflow::from_description) in a file. If the
//! description contains run times, memory or sizes, rank 0, the *master*, computes a plan with
//! [`armature_planner::workflow`](https://docs.rs/armature-planner) and sends each rank its tasks in the order of the plan, some in
//! advance. By default rank 0 runs tasks too. The value of a task goes directly from the rank that computed it to the ranks that read it.
//! Without a plan, tasks go to free ranks, near their inputs.
//!
//! A task may also be a command ([`Config::commands`](crate::Config::commands)). Commands read and write files in a [directory](Workflow::directory)
//! that all ranks share, or in directories of each rank between which files are [sent](Workflow::send_files). Several commands run at a time on a
//! rank, and their run time and peak memory are [measured](Summary::measured). A command gets information about its task in environment variables:
//! `ARMATURE_TASK_NAME`, `ARMATURE_TASK_CPUS`, `ARMATURE_TASK_MEMORY` (bytes, if known), `ARMATURE_TASK_RANK` and `ARMATURE_TASK_TRY` (from 1), and
//! the variables of pegasus-mpi-cluster, `PMC_TASK`, `PMC_CPUS`, `PMC_MEMORY` and `PMC_RANK`.
//!
//! # Failures
//! - A task that returns an error or panics is retried on another rank, as often as its description or [`Workflow::retries`] allows. Then
//!   the job ends, unless [`Workflow::max_failures`] allows the failure: the tasks that depend on the task are then not run, and the
//!   [`Summary`] names the task.
//! - A command is ended at its time limit. A closure cannot be ended: if it returns after its limit it has failed, and if it takes twice
//!   its limit the job ends.
//! - The values and running tasks on a rank take at most [`Workflow::memory`] bytes, if the description states the memory of tasks correctly.
//! - If a rank dies and the launcher lets the other ranks continue, the job continues without it and repeats its tasks. The death counts as
//!   a try of the closure in which the rank was, so that the closure is repeated only if [`Workflow::retries`] allows it; rank 0 does not
//!   run that closure.
//! - The death of rank 0 ends the job. With a [journal](Workflow::journal) a job that is started again runs only the missing tasks.
//!
//! `README.md` in the source directory of this module describes the protocol.

mod builder;
mod closure;
mod commands;
mod files;
mod forecast;
#[cfg(test)]
mod golden_tests;
mod graph;
mod handle;
#[cfg(test)]
mod machine_tests;
mod master;
mod messages;
mod planning;
#[cfg(test)]
mod recorder;
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
mod typed;
mod user_code;
mod value;
mod worker;

pub use crate::context::Context;
pub use crate::failed_task::FailedTask;
pub use armature_commands::Ended;
pub use armature_planner::workflow::{Cluster, MemoryModel, Plan, PlanOptions, Processor, TaskMemory};
pub use armature_workflow_files::{Action, Description, DescriptionBuilder, File, Task};
pub use builder::Workflow;
pub use closure::Inputs;
pub use handle::{Handle, Parents, TaskName};
pub use results::Results;
pub use summary::{Measured, RankReport, Summary};
